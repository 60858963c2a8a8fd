-- All that protects the rows, one line of text each, to compare with what it should be (postgres.py). The owner's own rights are left
-- out, as they differ between versions of the server.
WITH ledger AS (SELECT n.* FROM pg_namespace n WHERE n.nspname = 'dpcli'),
relation AS (SELECT c.* FROM pg_class c JOIN ledger n ON c.relnamespace = n.oid WHERE c.relkind IN ('r', 'p', 'v', 'm', 'f', 'S')),
routine AS (SELECT p.* FROM pg_proc p JOIN ledger n ON p.pronamespace = n.oid),
line AS (
  SELECT format('relation %s %s %s rls %s forced %s', relname, relkind, relpersistence, relrowsecurity, relforcerowsecurity) AS line FROM relation
  UNION ALL
  SELECT format('column %s.%s %s not null %s generated %s default %s', r.relname, a.attname, format_type(a.atttypid, a.atttypmod),
    a.attnotnull, a.attgenerated, pg_get_expr(d.adbin, d.adrelid))
  FROM relation r JOIN pg_attribute a ON a.attrelid = r.oid AND a.attnum > 0 AND NOT a.attisdropped
  LEFT JOIN pg_attrdef d ON d.adrelid = r.oid AND d.adnum = a.attnum
  UNION ALL
  SELECT format('constraint %s.%s %s valid %s', r.relname, k.conname, pg_get_constraintdef(k.oid), k.convalidated)
  FROM relation r JOIN pg_constraint k ON k.conrelid = r.oid WHERE k.contype <> 'n'
  UNION ALL
  SELECT format('index %s valid %s', pg_get_indexdef(i.indexrelid), i.indisvalid) FROM relation r JOIN pg_index i ON i.indrelid = r.oid
  UNION ALL
  SELECT format('trigger %s enabled %s', pg_get_triggerdef(t.oid), t.tgenabled)
  FROM relation r JOIN pg_trigger t ON t.tgrelid = r.oid WHERE NOT t.tgisinternal
  UNION ALL
  SELECT format('trigger of %s: %s enabled %s', k.conname, t.tgtype, t.tgenabled)
  FROM relation r JOIN pg_trigger t ON t.tgrelid = r.oid JOIN pg_constraint k ON k.oid = t.tgconstraint WHERE t.tgisinternal
  UNION ALL
  SELECT format('rule %s', pg_get_ruledef(w.oid)) FROM relation r JOIN pg_rewrite w ON w.ev_class = r.oid
  UNION ALL
  SELECT format('policy %s.%s %s permissive %s roles %s using %s check %s', r.relname, p.polname, p.polcmd, p.polpermissive,
    ARRAY(SELECT CASE WHEN o = 0 THEN 'public' ELSE pg_get_userbyid(o)::text END FROM unnest(p.polroles) o ORDER BY 1),
    pg_get_expr(p.polqual, p.polrelid), pg_get_expr(p.polwithcheck, p.polrelid))
  FROM relation r JOIN pg_policy p ON p.polrelid = r.oid
  UNION ALL
  SELECT format('function %s(%s) %s %s %s definer %s strict %s settings %s body %s', p.proname, pg_get_function_arguments(p.oid),
    pg_get_function_result(p.oid), l.lanname, p.provolatile, p.prosecdef, p.proisstrict, p.proconfig, p.prosrc)
  FROM routine p JOIN pg_language l ON l.oid = p.prolang
  UNION ALL
  SELECT format('grant on %s %s to %s grantable %s', g.what, g.privilege_type,
    CASE WHEN g.grantee = 0 THEN 'public' ELSE pg_get_userbyid(g.grantee)::text END, g.is_grantable)
  FROM (
    SELECT 'schema' AS what, n.nspowner AS owner, x.* FROM ledger n, aclexplode(coalesce(n.nspacl, acldefault('n', n.nspowner))) x
    UNION ALL
    SELECT 'relation ' || r.relname, r.relowner, x.* FROM relation r, aclexplode(coalesce(r.relacl, acldefault('r', r.relowner))) x
    UNION ALL
    SELECT format('column %s.%s', r.relname, a.attname), r.relowner, x.*
    FROM relation r JOIN pg_attribute a ON a.attrelid = r.oid, aclexplode(a.attacl) x
    UNION ALL
    SELECT format('function %s(%s)', p.proname, pg_get_function_identity_arguments(p.oid)), p.proowner, x.*
    FROM routine p, aclexplode(coalesce(p.proacl, acldefault('f', p.proowner))) x
  ) g WHERE g.grantee <> g.owner
)
SELECT line.line FROM line ORDER BY line.line COLLATE "C"
