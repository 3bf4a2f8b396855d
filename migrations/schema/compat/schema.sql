CREATE OR REPLACE VIEW oar_compat.schema AS
SELECT '2.5.9'::text AS version, 'oarpy'::text AS name;
COMMENT ON VIEW oar_compat.schema IS 'the schema that these views are like';
COMMENT ON COLUMN oar_compat.schema.version IS 'of OAR';
COMMENT ON COLUMN oar_compat.schema.name IS 'who wrote it';
