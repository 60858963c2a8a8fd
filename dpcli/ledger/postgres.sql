-- The ledger in a PostgreSQL database (13 and later). Rows are only ever added, and only by dpcli.append, which checks whatever SQL can.
-- Nothing here holds a backslash, so that no session setting changes how it is read.
-- Names of parameters differ from those of columns: PL/pgSQL tells them apart by nothing else.

CREATE SCHEMA dpcli;

CREATE TABLE dpcli.format (version integer PRIMARY KEY);
INSERT INTO dpcli.format VALUES (1);

-- seq, head: the end of the chain. team: the role whose members alone see the dataset; NULL for everybody with a role of the ledger.
CREATE TABLE dpcli.dataset (
  name text PRIMARY KEY, team text, fingerprint text UNIQUE, seq bigint NOT NULL CHECK (seq >= 1), head text NOT NULL
);

CREATE TABLE dpcli.entry (
  dataset text NOT NULL REFERENCES dpcli.dataset (name), seq bigint NOT NULL CHECK (seq >= 1), body text NOT NULL, hash text NOT NULL,
  kind text NOT NULL GENERATED ALWAYS AS (body::jsonb ->> 'kind') STORED,
  key text GENERATED ALWAYS AS (body::jsonb ->> 'key') STORED,
  cost jsonb GENERATED ALWAYS AS (body::jsonb -> 'cost') STORED,
  PRIMARY KEY (dataset, seq), UNIQUE (dataset, key, kind)
);

CREATE FUNCTION dpcli.never() RETURNS trigger LANGUAGE plpgsql SET search_path = pg_catalog, dpcli, pg_temp AS $$
BEGIN
  RAISE EXCEPTION USING ERRCODE = 'DPL01', MESSAGE = format('rows of %s never change and are never removed', TG_TABLE_NAME);
END $$;

CREATE FUNCTION dpcli.forward() RETURNS trigger LANGUAGE plpgsql SET search_path = pg_catalog, dpcli, pg_temp AS $$
BEGIN
  IF (NEW.name, NEW.team, NEW.fingerprint, NEW.seq) IS DISTINCT FROM (OLD.name, OLD.team, OLD.fingerprint, OLD.seq + 1) THEN
    RAISE EXCEPTION USING ERRCODE = 'DPL01', MESSAGE = 'a dataset never changes but for the end of its chain, which moves on by one';
  END IF;
  RETURN NEW;
END $$;

CREATE TRIGGER never BEFORE UPDATE OR DELETE OR TRUNCATE ON dpcli.entry FOR EACH STATEMENT EXECUTE FUNCTION dpcli.never();
CREATE TRIGGER never BEFORE DELETE OR TRUNCATE ON dpcli.dataset FOR EACH STATEMENT EXECUTE FUNCTION dpcli.never();
CREATE TRIGGER never BEFORE UPDATE OR DELETE OR TRUNCATE ON dpcli.format FOR EACH STATEMENT EXECUTE FUNCTION dpcli.never();
CREATE TRIGGER forward BEFORE UPDATE ON dpcli.dataset FOR EACH ROW EXECUTE FUNCTION dpcli.forward();
ALTER TABLE dpcli.entry ENABLE ALWAYS TRIGGER never;
ALTER TABLE dpcli.dataset ENABLE ALWAYS TRIGGER never;
ALTER TABLE dpcli.format ENABLE ALWAYS TRIGGER never;
ALTER TABLE dpcli.dataset ENABLE ALWAYS TRIGGER forward;

-- Who sees what. The login counts (session_user), not a role that was taken on since, nor the owner of the function that looks.

CREATE FUNCTION dpcli.is_member(of_team text) RETURNS boolean LANGUAGE sql STABLE SET search_path = pg_catalog, dpcli, pg_temp AS $$
  SELECT of_team IS NULL
    OR EXISTS (SELECT FROM pg_roles r WHERE r.rolname = of_team AND pg_has_role(session_user, r.oid, 'MEMBER'))
$$;

CREATE FUNCTION dpcli.visible() RETURNS text[] LANGUAGE sql STABLE SET search_path = pg_catalog, dpcli, pg_temp AS $$
  SELECT coalesce(array_agg(d.name), ARRAY[]::text[]) FROM dpcli.dataset d
$$;

ALTER TABLE dpcli.dataset ENABLE ROW LEVEL SECURITY;
ALTER TABLE dpcli.dataset FORCE ROW LEVEL SECURITY;
ALTER TABLE dpcli.entry ENABLE ROW LEVEL SECURITY;
ALTER TABLE dpcli.entry FORCE ROW LEVEL SECURITY;
CREATE POLICY team ON dpcli.dataset USING (dpcli.is_member(team));
CREATE POLICY team ON dpcli.entry USING (dataset = ANY ((SELECT dpcli.visible())::text[]));

-- Refusals.

CREATE FUNCTION dpcli.require(holds boolean, otherwise text) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, dpcli, pg_temp AS $$
BEGIN
  IF holds IS NOT TRUE THEN
    RAISE EXCEPTION USING ERRCODE = 'DPL01', MESSAGE = otherwise;
  END IF;
END $$;

CREATE FUNCTION dpcli.permit(of_kind text) RETURNS void LANGUAGE plpgsql SET search_path = pg_catalog, dpcli, pg_temp AS $$
DECLARE
  needed name := CASE WHEN of_kind IN ('open', 'amend') THEN 'dpcli_admin' ELSE 'dpcli_spender' END;
BEGIN
  IF pg_has_role(session_user, needed, 'MEMBER') IS NOT TRUE THEN
    RAISE EXCEPTION USING ERRCODE = 'DPL02', MESSAGE = format('%s needs the role %s, which %s has not', of_kind, needed, session_user);
  END IF;
END $$;

-- The one spelling of an entry, as dpcli.ledger.chain writes it: what no reader could take would stop everybody's reading.

CREATE FUNCTION dpcli.quoted(string text) RETURNS text LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, dpcli, pg_temp AS $$
  SELECT CASE WHEN string ~ '^[ -~]*$' THEN to_json(string)::text ELSE (
    SELECT '"' || string_agg(CASE
      WHEN c IN ('"', chr(92)) THEN chr(92) || c
      WHEN ascii(c) BETWEEN 32 AND 126 THEN c
      WHEN ascii(c) IN (8, 9, 10, 12, 13) THEN chr(92) || substr('btn fr', ascii(c) - 7, 1)
      WHEN ascii(c) < 65536 THEN chr(92) || 'u' || lpad(to_hex(ascii(c)), 4, '0')
      ELSE chr(92) || 'u' || to_hex(55296 + ((ascii(c) - 65536) >> 10)) || chr(92) || 'u' || to_hex(56320 + ((ascii(c) - 65536) & 1023))
    END, '' ORDER BY i) || '"' FROM regexp_split_to_table(string, '') WITH ORDINALITY AS piece (c, i)) END
$$;

-- Shortest decimals that read back as the same double. PostgreSQL writes a digit more where the shortest lies on the edge of what reads
-- back (1e+23), hence the last line.
CREATE FUNCTION dpcli.is_number(spelled text) RETURNS boolean
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, dpcli, pg_temp SET extra_float_digits = 1 AS $$
DECLARE
  x double precision;
  fixed text;
BEGIN
  IF spelled ~ '^-?[0-9]+$' THEN
    RETURN spelled <> '-0' AND length(spelled) <= 400;
  END IF;
  x := spelled::double precision;
  IF x = 0 THEN
    RETURN spelled IN ('0.0', '-0.0');
  ELSIF abs(x) >= 1e-4 AND abs(x) < 1e16 THEN
    fixed := trim_scale(x::text::numeric)::text;
    RETURN spelled = fixed || CASE WHEN strpos(fixed, '.') = 0 THEN '.0' ELSE '' END;
  END IF;
  RETURN spelled ~ '^-?[1-9]([.][0-9]*[1-9])?e([+][1-9][0-9]{1,2}|-[0-9]{2,3})$'
    AND (spelled = x::text OR length(spelled) < length(x::text));
END $$;

CREATE FUNCTION dpcli.canonical(value json, deep integer) RETURNS text
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, dpcli, pg_temp AS $$
BEGIN
  PERFORM dpcli.require(deep < 50, 'expected an entry of less depth');
  CASE json_typeof(value)
    WHEN 'object' THEN
      PERFORM dpcli.require(count(*) = count(DISTINCT m.key), 'expected every name in an entry once') FROM json_each(value) m;
      RETURN (SELECT '{' || coalesce(string_agg(dpcli.quoted(m.key) || ':' || dpcli.canonical(m.value, deep + 1), ','
        ORDER BY m.key COLLATE "C"), '') || '}' FROM json_each(value) m);
    WHEN 'array' THEN
      RETURN (SELECT '[' || coalesce(string_agg(dpcli.canonical(m.value, deep + 1), ',' ORDER BY m.i), '') || ']'
        FROM json_array_elements(value) WITH ORDINALITY AS m (value, i));
    WHEN 'string' THEN
      RETURN dpcli.quoted(value #>> '{}');
    WHEN 'number' THEN
      PERFORM dpcli.require(dpcli.is_number(value::text), 'expected the shortest spelling of every number');
      RETURN value::text;
    ELSE
      RETURN value::text;
  END CASE;
END $$;

-- Amounts: decimal strings, added exactly.

CREATE FUNCTION dpcli.amount(spelled text) RETURNS numeric LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, dpcli, pg_temp AS $$
DECLARE
  value numeric;
BEGIN
  PERFORM dpcli.require(spelled ~ '^[0-9]+([.][0-9]+)?(E[+-]?[0-9]{1,3})?$', 'expected decimal numbers >= 0');
  PERFORM dpcli.require(length(ltrim(replace(split_part(spelled, 'E', 1), '.', ''), '0')) <= 20 AND length(spelled) <= 40,
    'expected decimal numbers of at most 20 digits');
  value := spelled::numeric;
  PERFORM dpcli.require(value = 0 OR value BETWEEN 1e-330 AND 1e310, 'expected decimal numbers within the range of doubles');
  RETURN value;
END $$;

CREATE FUNCTION dpcli.require_amounts(amounts jsonb) RETURNS void
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, dpcli, pg_temp AS $$
BEGIN
  PERFORM dpcli.require(jsonb_typeof(amounts) = 'object' AND amounts <> '{}'::jsonb, 'expected amounts by name');
  PERFORM dpcli.require(bool_and(jsonb_typeof(m.value) = 'string'), 'expected amounts as strings') FROM jsonb_each(amounts) m;
  PERFORM dpcli.amount(m.value) FROM jsonb_each_text(amounts) m;
END $$;

CREATE FUNCTION dpcli.caps(of_dataset text) RETURNS jsonb LANGUAGE sql STABLE SET search_path = pg_catalog, dpcli, pg_temp AS $$
  SELECT e.body::jsonb -> 'caps' FROM dpcli.entry e
  WHERE e.dataset = of_dataset AND e.kind IN ('open', 'amend') ORDER BY e.seq DESC LIMIT 1
$$;

-- The first amount that a further cost takes above its cap, or that has no cap; NULL where all are within. All but voided runs count.
CREATE FUNCTION dpcli.exceeded(of_dataset text, more jsonb) RETURNS text
LANGUAGE sql STABLE SET search_path = pg_catalog, dpcli, pg_temp AS $$
  WITH cap AS (SELECT m.key AS name, dpcli.amount(m.value) AS most FROM jsonb_each_text(dpcli.caps(of_dataset)) m),
  part AS (
    SELECT m.key AS name, dpcli.amount(m.value) AS cost FROM jsonb_each_text(more) m
    UNION ALL
    SELECT m.key, m.value::numeric FROM dpcli.entry e, jsonb_each_text(e.cost) m
    WHERE e.dataset = of_dataset AND e.kind IN ('spend', 'reserve')
      AND e.key NOT IN (SELECT v.key FROM dpcli.entry v WHERE v.dataset = of_dataset AND v.kind = 'void' AND v.key IS NOT NULL)
  )
  SELECT part.name FROM part LEFT JOIN cap ON cap.name = part.name
  GROUP BY part.name, cap.most HAVING (sum(part.cost) <= cap.most) IS NOT TRUE ORDER BY part.name LIMIT 1
$$;

-- What each kind of entry must hold.

CREATE FUNCTION dpcli.check_open(of_dataset text, content jsonb, new_hash text) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, dpcli, pg_temp AS $$
DECLARE
  of_team text := content #>> '{terms,team}';
BEGIN
  PERFORM dpcli.require(btrim(of_dataset) <> '' AND length(of_dataset) <= 200, 'expected the name of a dataset');
  PERFORM dpcli.require(content -> 'seq' = '1'::jsonb AND content ->> 'previous' = repeat('0', 64), 'expected an opening as the first entry');
  PERFORM dpcli.require(jsonb_typeof(content -> 'terms') = 'object', 'expected terms');
  PERFORM dpcli.require_amounts(content -> 'caps');
  PERFORM dpcli.require(dpcli.is_member(of_team), format('expected a team whose member you are, found %L', of_team));
  INSERT INTO dpcli.dataset VALUES (of_dataset, of_team, content #>> '{terms,fingerprint}', 1, new_hash);
END $$;

CREATE FUNCTION dpcli.check_charge(of_dataset text, content jsonb) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, dpcli, pg_temp AS $$
DECLARE
  of_key text := content ->> 'key';
  over text;
BEGIN
  PERFORM dpcli.require(btrim(of_key) <> '' AND length(of_key) <= 200 AND of_key !~ '[[:cntrl:]]', 'expected a key');
  PERFORM dpcli.require(NOT EXISTS (SELECT FROM dpcli.entry e WHERE e.dataset = of_dataset AND e.key = of_key),
    'that key is charged already');
  PERFORM dpcli.require(jsonb_typeof(content #> '{pipeline,privacy}') = 'object', 'expected a pipeline');
  PERFORM dpcli.require(jsonb_typeof(content #> '{pipeline,mechanism}') = 'array', 'expected a pipeline');
  PERFORM dpcli.require(bool_and(jsonb_typeof(m) = 'object'), 'expected mechanisms')
    FROM jsonb_array_elements(content #> '{pipeline,mechanism}') m;
  PERFORM dpcli.require(content ->> 'delta' ~ '^[0-9]([.][0-9]+)?(e-[0-9]{2,3})?$', 'expected a delta');
  PERFORM dpcli.require_amounts(content -> 'cost');
  over := dpcli.exceeded(of_dataset, content -> 'cost');
  PERFORM dpcli.require(over IS NULL, format('over the cap on %s', over));
END $$;

CREATE FUNCTION dpcli.check_move(of_dataset text, content jsonb) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, dpcli, pg_temp AS $$
DECLARE
  now_utc text := to_char(clock_timestamp() AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"');
  so_far text[] := ARRAY(SELECT e.kind FROM dpcli.entry e WHERE e.dataset = of_dataset AND e.key = content ->> 'key');
  expires text := (SELECT e.body::jsonb ->> 'expires' FROM dpcli.entry e
    WHERE e.dataset = of_dataset AND e.key = content ->> 'key' AND e.kind = 'reserve');
BEGIN
  PERFORM dpcli.require('reserve' = ANY (so_far), 'expected the key of a reservation');
  PERFORM dpcli.require(NOT so_far && ARRAY['commit', 'void'], 'expected a reservation that has not ended');
  IF content ->> 'kind' <> 'commit' THEN
    PERFORM dpcli.require(NOT 'start' = ANY (so_far), 'expected a reservation before its start');
  END IF;
  IF content ->> 'kind' = 'void' THEN
    PERFORM dpcli.require(btrim(content ->> 'why') <> '', 'expected why no noise was drawn');
    PERFORM dpcli.require(expires IS NULL OR expires COLLATE "C" > now_utc COLLATE "C", 'expected a reservation within its time');
  END IF;
END $$;

CREATE FUNCTION dpcli.check_amend(of_dataset text, content jsonb) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, dpcli, pg_temp AS $$
BEGIN
  PERFORM dpcli.require(jsonb_typeof(content -> 'epsilon') = 'number' AND (content ->> 'epsilon')::numeric > 0, 'expected an epsilon > 0');
  PERFORM dpcli.require(btrim(content ->> 'why') <> '' AND btrim(content ->> 'approver') <> '', 'expected a reason and an approver');
  PERFORM dpcli.require_amounts(content -> 'caps');
  PERFORM dpcli.require(
    ARRAY(SELECT jsonb_object_keys(content -> 'caps') ORDER BY 1) = ARRAY(SELECT jsonb_object_keys(dpcli.caps(of_dataset)) ORDER BY 1),
    'expected the caps that the ledger has');
END $$;

-- The two functions that a client calls. Both run with the rights of the owner, and look at the login.

-- One writer at a time: the row of the dataset stays locked until the end of the transaction; where there is none yet, whoever may open
-- one holds off all others who may.
CREATE FUNCTION dpcli.hold(of_dataset text, milliseconds integer) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, dpcli, pg_temp AS $$
BEGIN
  PERFORM dpcli.permit('spend');
  PERFORM dpcli.require(current_setting('fsync') = 'on', 'the server runs with fsync off: no commit would survive a power failure');
  PERFORM set_config('lock_timeout', milliseconds::text, true), set_config('idle_in_transaction_session_timeout', '60000', true);
  IF current_setting('synchronous_commit') IN ('off', 'local') THEN
    PERFORM set_config('synchronous_commit', 'on', true);
  END IF;
  PERFORM FROM dpcli.dataset d WHERE d.name = of_dataset AND dpcli.is_member(d.team) FOR UPDATE;
  IF NOT FOUND THEN
    PERFORM dpcli.permit('open');
    PERFORM FROM dpcli.format FOR UPDATE;
    PERFORM FROM dpcli.dataset d WHERE d.name = of_dataset AND dpcli.is_member(d.team) FOR UPDATE;
  END IF;
END $$;

CREATE FUNCTION dpcli.append(of_dataset text, new_seq bigint, new_body text, new_hash text) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, dpcli, pg_temp AS $$
DECLARE
  content jsonb;
  last dpcli.dataset;
BEGIN
  PERFORM dpcli.require(new_body ~ '^[ -~]+$' AND length(new_body) <= 4000000, 'expected an entry in ASCII');
  PERFORM dpcli.require(new_hash = encode(sha256(convert_to(new_body, 'UTF8')), 'hex'), 'the hash is not that of the entry');
  PERFORM dpcli.require(new_body::json IS NOT NULL AND json_typeof(new_body::json) = 'object', 'expected an object');
  PERFORM dpcli.require(dpcli.canonical(new_body::json, 0) = new_body, 'expected an entry in its one spelling');
  content := new_body::jsonb;
  PERFORM dpcli.require(content ->> 'kind' IN ('open', 'spend', 'reserve', 'start', 'commit', 'void', 'amend'), 'expected a known kind of entry');
  PERFORM dpcli.permit(content ->> 'kind');
  PERFORM dpcli.require(content ->> 'who' = session_user, format('expected an entry signed by %s, who is logged in', session_user));
  PERFORM dpcli.require(content ? 'when', 'expected the time of the entry');
  PERFORM dpcli.require(count(*) = 0, format('expected %s in words', min(m.key)))
    FROM jsonb_each(content) m
    WHERE m.key IN ('when', 'why', 'key', 'delta', 'detail', 'expires', 'approver', 'dpcli') AND jsonb_typeof(m.value) <> 'string';
  PERFORM dpcli.require(content -> 'ledger' = '1'::jsonb, 'expected format 1');
  PERFORM dpcli.require(content ->> 'dataset' = of_dataset AND content -> 'seq' = to_jsonb(new_seq), 'the entry belongs elsewhere');
  IF content ->> 'kind' = 'open' THEN
    PERFORM dpcli.check_open(of_dataset, content, new_hash);
    INSERT INTO dpcli.entry VALUES (of_dataset, new_seq, new_body, new_hash);
    RETURN;
  END IF;
  SELECT d.* INTO last FROM dpcli.dataset d WHERE d.name = of_dataset AND dpcli.is_member(d.team) FOR UPDATE;
  PERFORM dpcli.require(last.name IS NOT NULL, 'no such dataset');
  PERFORM dpcli.require(new_seq = last.seq + 1 AND content ->> 'previous' = last.head, 'the entry does not follow the end of the chain');
  CASE
    WHEN content ->> 'kind' IN ('spend', 'reserve') THEN PERFORM dpcli.check_charge(of_dataset, content);
    WHEN content ->> 'kind' = 'amend' THEN PERFORM dpcli.check_amend(of_dataset, content);
    ELSE PERFORM dpcli.check_move(of_dataset, content);
  END CASE;
  INSERT INTO dpcli.entry VALUES (of_dataset, new_seq, new_body, new_hash);
  UPDATE dpcli.dataset d SET seq = new_seq, head = new_hash WHERE d.name = of_dataset;
END $$;

-- What each role may. An owner's rights are his own; PUBLIC has none.

REVOKE ALL ON SCHEMA dpcli FROM PUBLIC;
REVOKE ALL ON ALL TABLES IN SCHEMA dpcli FROM PUBLIC;
REVOKE ALL ON ALL FUNCTIONS IN SCHEMA dpcli FROM PUBLIC;
GRANT USAGE ON SCHEMA dpcli TO dpcli_viewer;
GRANT SELECT ON dpcli.format, dpcli.dataset, dpcli.entry TO dpcli_viewer;
GRANT EXECUTE ON FUNCTION dpcli.is_member(text), dpcli.visible() TO dpcli_viewer;
GRANT EXECUTE ON FUNCTION dpcli.hold(text, integer), dpcli.append(text, bigint, text, text) TO dpcli_spender;
