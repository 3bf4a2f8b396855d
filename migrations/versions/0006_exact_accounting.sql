-- Views over a column must go before its type changes; who may read them is kept.
CREATE TEMPORARY TABLE kept_grants ON COMMIT DROP AS
SELECT c.relname, g.privilege_type, g.is_grantable,
       CASE g.grantee WHEN 0 THEN 'PUBLIC' ELSE quote_ident(pg_get_userbyid(g.grantee)) END AS grantee
FROM pg_class c CROSS JOIN LATERAL aclexplode(c.relacl) g
WHERE c.oid IN ('oar_report.accounting'::regclass, 'oar_report.karma'::regclass) AND g.grantee <> c.relowner;

DROP VIEW oar_report.accounting, oar_report.karma;
