CREATE OR REPLACE VIEW oar_report.consumables AS
SELECT c.name AS consumable, c.level, c.unit, k.block, k.capacity, k.held, k.capacity - k.held AS remaining
FROM public.consumables c JOIN public.consumable_capacities k ON k.consumable = c.name;
COMMENT ON VIEW oar_report.consumables IS 'what is divided among jobs, block by block, and how much of it is held now';
COMMENT ON COLUMN oar_report.consumables.consumable IS 'its name in requests';
COMMENT ON COLUMN oar_report.consumables.level IS 'the property whose values have amounts of it';
COMMENT ON COLUMN oar_report.consumables.unit IS 'bytes or count';
COMMENT ON COLUMN oar_report.consumables.block IS 'a value of that property';
COMMENT ON COLUMN oar_report.consumables.capacity IS 'how much there is';
COMMENT ON COLUMN oar_report.consumables.held IS 'how much of it jobs hold';
COMMENT ON COLUMN oar_report.consumables.remaining IS 'the rest';
