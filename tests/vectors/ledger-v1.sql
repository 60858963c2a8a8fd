--
-- PostgreSQL database dump
--


-- Dumped from database version 15.18 (Debian 15.18-0+deb12u1)
-- Dumped by pg_dump version 15.18 (Debian 15.18-0+deb12u1)

SET statement_timeout = 0;
SET lock_timeout = 0;
SET idle_in_transaction_session_timeout = 0;
SET client_encoding = 'UTF8';
SET standard_conforming_strings = on;
SELECT pg_catalog.set_config('search_path', '', false);
SET check_function_bodies = false;
SET xmloption = content;
SET client_min_messages = warning;
SET row_security = off;

--
-- Name: dpcli; Type: SCHEMA; Schema: -; Owner: ledger_owner
--

CREATE SCHEMA dpcli;


ALTER SCHEMA dpcli OWNER TO ledger_owner;

--
-- Name: amount(text); Type: FUNCTION; Schema: dpcli; Owner: ledger_owner
--

CREATE FUNCTION dpcli.amount(spelled text) RETURNS numeric
    LANGUAGE plpgsql IMMUTABLE
    SET search_path TO 'pg_catalog', 'dpcli', 'pg_temp'
    AS $_$
DECLARE
  value numeric;
BEGIN
  PERFORM dpcli.require(spelled ~ '^[0-9]+([.][0-9]+)?(E[+-]?[0-9]{1,3})?$', 'expected decimal numbers >= 0');
  PERFORM dpcli.require(length(ltrim(replace(split_part(spelled, 'E', 1), '.', ''), '0')) <= 20 AND length(spelled) <= 40,
    'expected decimal numbers of at most 20 digits');
  value := spelled::numeric;
  PERFORM dpcli.require(value = 0 OR value BETWEEN 1e-330 AND 1e310, 'expected decimal numbers within the range of doubles');
  RETURN value;
END $_$;


ALTER FUNCTION dpcli.amount(spelled text) OWNER TO ledger_owner;

--
-- Name: append(text, bigint, text, text); Type: FUNCTION; Schema: dpcli; Owner: ledger_owner
--

CREATE FUNCTION dpcli.append(of_dataset text, new_seq bigint, new_body text, new_hash text) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'dpcli', 'pg_temp'
    AS $_$
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
END $_$;


ALTER FUNCTION dpcli.append(of_dataset text, new_seq bigint, new_body text, new_hash text) OWNER TO ledger_owner;

--
-- Name: canonical(json, integer); Type: FUNCTION; Schema: dpcli; Owner: ledger_owner
--

CREATE FUNCTION dpcli.canonical(value json, deep integer) RETURNS text
    LANGUAGE plpgsql IMMUTABLE
    SET search_path TO 'pg_catalog', 'dpcli', 'pg_temp'
    AS $$
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


ALTER FUNCTION dpcli.canonical(value json, deep integer) OWNER TO ledger_owner;

--
-- Name: caps(text); Type: FUNCTION; Schema: dpcli; Owner: ledger_owner
--

CREATE FUNCTION dpcli.caps(of_dataset text) RETURNS jsonb
    LANGUAGE sql STABLE
    SET search_path TO 'pg_catalog', 'dpcli', 'pg_temp'
    AS $$
  SELECT e.body::jsonb -> 'caps' FROM dpcli.entry e
  WHERE e.dataset = of_dataset AND e.kind IN ('open', 'amend') ORDER BY e.seq DESC LIMIT 1
$$;


ALTER FUNCTION dpcli.caps(of_dataset text) OWNER TO ledger_owner;

--
-- Name: check_amend(text, jsonb); Type: FUNCTION; Schema: dpcli; Owner: ledger_owner
--

CREATE FUNCTION dpcli.check_amend(of_dataset text, content jsonb) RETURNS void
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'dpcli', 'pg_temp'
    AS $$
BEGIN
  PERFORM dpcli.require(jsonb_typeof(content -> 'epsilon') = 'number' AND (content ->> 'epsilon')::numeric > 0, 'expected an epsilon > 0');
  PERFORM dpcli.require(btrim(content ->> 'why') <> '' AND btrim(content ->> 'approver') <> '', 'expected a reason and an approver');
  PERFORM dpcli.require_amounts(content -> 'caps');
  PERFORM dpcli.require(
    ARRAY(SELECT jsonb_object_keys(content -> 'caps') ORDER BY 1) = ARRAY(SELECT jsonb_object_keys(dpcli.caps(of_dataset)) ORDER BY 1),
    'expected the caps that the ledger has');
END $$;


ALTER FUNCTION dpcli.check_amend(of_dataset text, content jsonb) OWNER TO ledger_owner;

--
-- Name: check_charge(text, jsonb); Type: FUNCTION; Schema: dpcli; Owner: ledger_owner
--

CREATE FUNCTION dpcli.check_charge(of_dataset text, content jsonb) RETURNS void
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'dpcli', 'pg_temp'
    AS $_$
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
END $_$;


ALTER FUNCTION dpcli.check_charge(of_dataset text, content jsonb) OWNER TO ledger_owner;

--
-- Name: check_move(text, jsonb); Type: FUNCTION; Schema: dpcli; Owner: ledger_owner
--

CREATE FUNCTION dpcli.check_move(of_dataset text, content jsonb) RETURNS void
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'dpcli', 'pg_temp'
    AS $$
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


ALTER FUNCTION dpcli.check_move(of_dataset text, content jsonb) OWNER TO ledger_owner;

--
-- Name: check_open(text, jsonb, text); Type: FUNCTION; Schema: dpcli; Owner: ledger_owner
--

CREATE FUNCTION dpcli.check_open(of_dataset text, content jsonb, new_hash text) RETURNS void
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'dpcli', 'pg_temp'
    AS $$
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


ALTER FUNCTION dpcli.check_open(of_dataset text, content jsonb, new_hash text) OWNER TO ledger_owner;

--
-- Name: exceeded(text, jsonb); Type: FUNCTION; Schema: dpcli; Owner: ledger_owner
--

CREATE FUNCTION dpcli.exceeded(of_dataset text, more jsonb) RETURNS text
    LANGUAGE sql STABLE
    SET search_path TO 'pg_catalog', 'dpcli', 'pg_temp'
    AS $$
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


ALTER FUNCTION dpcli.exceeded(of_dataset text, more jsonb) OWNER TO ledger_owner;

--
-- Name: forward(); Type: FUNCTION; Schema: dpcli; Owner: ledger_owner
--

CREATE FUNCTION dpcli.forward() RETURNS trigger
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'dpcli', 'pg_temp'
    AS $$
BEGIN
  IF (NEW.name, NEW.team, NEW.fingerprint, NEW.seq) IS DISTINCT FROM (OLD.name, OLD.team, OLD.fingerprint, OLD.seq + 1) THEN
    RAISE EXCEPTION USING ERRCODE = 'DPL01', MESSAGE = 'a dataset never changes but for the end of its chain, which moves on by one';
  END IF;
  RETURN NEW;
END $$;


ALTER FUNCTION dpcli.forward() OWNER TO ledger_owner;

--
-- Name: hold(text, integer); Type: FUNCTION; Schema: dpcli; Owner: ledger_owner
--

CREATE FUNCTION dpcli.hold(of_dataset text, milliseconds integer) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'dpcli', 'pg_temp'
    AS $$
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


ALTER FUNCTION dpcli.hold(of_dataset text, milliseconds integer) OWNER TO ledger_owner;

--
-- Name: is_member(text); Type: FUNCTION; Schema: dpcli; Owner: ledger_owner
--

CREATE FUNCTION dpcli.is_member(of_team text) RETURNS boolean
    LANGUAGE sql STABLE
    SET search_path TO 'pg_catalog', 'dpcli', 'pg_temp'
    AS $$
  SELECT of_team IS NULL
    OR EXISTS (SELECT FROM pg_roles r WHERE r.rolname = of_team AND pg_has_role(session_user, r.oid, 'MEMBER'))
$$;


ALTER FUNCTION dpcli.is_member(of_team text) OWNER TO ledger_owner;

--
-- Name: is_number(text); Type: FUNCTION; Schema: dpcli; Owner: ledger_owner
--

CREATE FUNCTION dpcli.is_number(spelled text) RETURNS boolean
    LANGUAGE plpgsql IMMUTABLE
    SET search_path TO 'pg_catalog', 'dpcli', 'pg_temp'
    SET extra_float_digits TO '1'
    AS $_$
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
END $_$;


ALTER FUNCTION dpcli.is_number(spelled text) OWNER TO ledger_owner;

--
-- Name: never(); Type: FUNCTION; Schema: dpcli; Owner: ledger_owner
--

CREATE FUNCTION dpcli.never() RETURNS trigger
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'dpcli', 'pg_temp'
    AS $$
BEGIN
  RAISE EXCEPTION USING ERRCODE = 'DPL01', MESSAGE = format('rows of %s never change and are never removed', TG_TABLE_NAME);
END $$;


ALTER FUNCTION dpcli.never() OWNER TO ledger_owner;

--
-- Name: permit(text); Type: FUNCTION; Schema: dpcli; Owner: ledger_owner
--

CREATE FUNCTION dpcli.permit(of_kind text) RETURNS void
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'dpcli', 'pg_temp'
    AS $$
DECLARE
  needed name := CASE WHEN of_kind IN ('open', 'amend') THEN 'dpcli_admin' ELSE 'dpcli_spender' END;
BEGIN
  IF pg_has_role(session_user, needed, 'MEMBER') IS NOT TRUE THEN
    RAISE EXCEPTION USING ERRCODE = 'DPL02', MESSAGE = format('%s needs the role %s, which %s has not', of_kind, needed, session_user);
  END IF;
END $$;


ALTER FUNCTION dpcli.permit(of_kind text) OWNER TO ledger_owner;

--
-- Name: quoted(text); Type: FUNCTION; Schema: dpcli; Owner: ledger_owner
--

CREATE FUNCTION dpcli.quoted(string text) RETURNS text
    LANGUAGE sql IMMUTABLE
    SET search_path TO 'pg_catalog', 'dpcli', 'pg_temp'
    AS $_$
  SELECT CASE WHEN string ~ '^[ -~]*$' THEN to_json(string)::text ELSE (
    SELECT '"' || string_agg(CASE
      WHEN c IN ('"', chr(92)) THEN chr(92) || c
      WHEN ascii(c) BETWEEN 32 AND 126 THEN c
      WHEN ascii(c) IN (8, 9, 10, 12, 13) THEN chr(92) || substr('btn fr', ascii(c) - 7, 1)
      WHEN ascii(c) < 65536 THEN chr(92) || 'u' || lpad(to_hex(ascii(c)), 4, '0')
      ELSE chr(92) || 'u' || to_hex(55296 + ((ascii(c) - 65536) >> 10)) || chr(92) || 'u' || to_hex(56320 + ((ascii(c) - 65536) & 1023))
    END, '' ORDER BY i) || '"' FROM regexp_split_to_table(string, '') WITH ORDINALITY AS piece (c, i)) END
$_$;


ALTER FUNCTION dpcli.quoted(string text) OWNER TO ledger_owner;

--
-- Name: require(boolean, text); Type: FUNCTION; Schema: dpcli; Owner: ledger_owner
--

CREATE FUNCTION dpcli.require(holds boolean, otherwise text) RETURNS void
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'dpcli', 'pg_temp'
    AS $$
BEGIN
  IF holds IS NOT TRUE THEN
    RAISE EXCEPTION USING ERRCODE = 'DPL01', MESSAGE = otherwise;
  END IF;
END $$;


ALTER FUNCTION dpcli.require(holds boolean, otherwise text) OWNER TO ledger_owner;

--
-- Name: require_amounts(jsonb); Type: FUNCTION; Schema: dpcli; Owner: ledger_owner
--

CREATE FUNCTION dpcli.require_amounts(amounts jsonb) RETURNS void
    LANGUAGE plpgsql IMMUTABLE
    SET search_path TO 'pg_catalog', 'dpcli', 'pg_temp'
    AS $$
BEGIN
  PERFORM dpcli.require(jsonb_typeof(amounts) = 'object' AND amounts <> '{}'::jsonb, 'expected amounts by name');
  PERFORM dpcli.require(bool_and(jsonb_typeof(m.value) = 'string'), 'expected amounts as strings') FROM jsonb_each(amounts) m;
  PERFORM dpcli.amount(m.value) FROM jsonb_each_text(amounts) m;
END $$;


ALTER FUNCTION dpcli.require_amounts(amounts jsonb) OWNER TO ledger_owner;

--
-- Name: visible(); Type: FUNCTION; Schema: dpcli; Owner: ledger_owner
--

CREATE FUNCTION dpcli.visible() RETURNS text[]
    LANGUAGE sql STABLE
    SET search_path TO 'pg_catalog', 'dpcli', 'pg_temp'
    AS $$
  SELECT coalesce(array_agg(d.name), ARRAY[]::text[]) FROM dpcli.dataset d
$$;


ALTER FUNCTION dpcli.visible() OWNER TO ledger_owner;

SET default_tablespace = '';

SET default_table_access_method = heap;

--
-- Name: dataset; Type: TABLE; Schema: dpcli; Owner: ledger_owner
--

CREATE TABLE dpcli.dataset (
    name text NOT NULL,
    team text,
    fingerprint text,
    seq bigint NOT NULL,
    head text NOT NULL,
    CONSTRAINT dataset_seq_check CHECK ((seq >= 1))
);

ALTER TABLE ONLY dpcli.dataset FORCE ROW LEVEL SECURITY;


ALTER TABLE dpcli.dataset OWNER TO ledger_owner;

--
-- Name: entry; Type: TABLE; Schema: dpcli; Owner: ledger_owner
--

CREATE TABLE dpcli.entry (
    dataset text NOT NULL,
    seq bigint NOT NULL,
    body text NOT NULL,
    hash text NOT NULL,
    kind text GENERATED ALWAYS AS (((body)::jsonb ->> 'kind'::text)) STORED NOT NULL,
    key text GENERATED ALWAYS AS (((body)::jsonb ->> 'key'::text)) STORED,
    cost jsonb GENERATED ALWAYS AS (((body)::jsonb -> 'cost'::text)) STORED,
    CONSTRAINT entry_seq_check CHECK ((seq >= 1))
);

ALTER TABLE ONLY dpcli.entry FORCE ROW LEVEL SECURITY;


ALTER TABLE dpcli.entry OWNER TO ledger_owner;

--
-- Name: format; Type: TABLE; Schema: dpcli; Owner: ledger_owner
--

CREATE TABLE dpcli.format (
    version integer NOT NULL
);


ALTER TABLE dpcli.format OWNER TO ledger_owner;

--
-- Data for Name: dataset; Type: TABLE DATA; Schema: dpcli; Owner: ledger_owner
--

COPY dpcli.dataset (name, team, fingerprint, seq, head) FROM stdin;
visits	\N	\N	10	bc8ba6177db68ef2844d7c135cb5d63bd33a73a3e95fe194666ff1ee93e81d1b
clicks	\N	\N	3	d75eaa27840628b8aef7db98140ff116111eec92a7c0c83a857f0b4d73e0b871
planned	\N	\N	2	a1fc8306a4882e497f89fdf03a13da895a25e59397db0ee9e61032afff21ec60
stopped	\N	\N	3	851d056afc654bc9fe7d696bfd4e21e2d8f816256f5c7e3e25c718677abeb739
bricked	\N	\N	2	e0576b01b934ebb69fa77882680930310595ad8aa9088d300ddf2cd52c3c07f1
\.


--
-- Data for Name: entry; Type: TABLE DATA; Schema: dpcli; Owner: ledger_owner
--

COPY dpcli.entry (dataset, seq, body, hash) FROM stdin;
visits	1	{"caps":{"delta":"0.000001","epsilon":"2"},"dataset":"visits","dpcli":"0.1.0","kind":"open","ledger":1,"previous":"0000000000000000000000000000000000000000000000000000000000000000","seq":1,"terms":{"adjacency":"add-remove","dataset_size":1000,"delta":1e-06,"epsilon":2.0,"filter":"approx-dp","mode":"adaptive","parameters":{},"schema":"223932b40e4ddab82f06357103794b2420bff108fba9e2827f6d529a152cdf26","unit":"user"},"when":"2026-11-22T01:04:06Z","who":"ledger_owner"}	fece08577f52d9c3fadac1f07bd0c4739584efa2ec07aed8eeafa0cdce305f58
visits	2	{"cost":{"delta":"0","epsilon":"0.1"},"dataset":"visits","delta":"0.0","detail":"epsilon at delta = 0.0 by basic","dpcli":"0.1.0","key":"first","kind":"spend","ledger":1,"pipeline":{"mechanism":[{"epsilon":0.1,"name":"query","type":"pure-dp"}],"privacy":{"adjacency":"add-remove","max_contributions":1,"unit":"user"}},"previous":"fece08577f52d9c3fadac1f07bd0c4739584efa2ec07aed8eeafa0cdce305f58","seq":2,"when":"2026-11-20T09:00:00Z","who":"ledger_owner","why":"baseline"}	2584794a9f395aaf1f84d3d7e855e1f65877d88035966ca7e5eca529b30f7bb3
visits	3	{"cost":{"delta":"1E-9","epsilon":"0.19999999818126926177"},"dataset":"visits","delta":"1e-09","detail":"epsilon at delta = 1e-09 by optimal","dpcli":"0.1.0","expires":"2030-01-01T00:00:00Z","key":"long","kind":"reserve","ledger":1,"pipeline":{"mechanism":[{"epsilon":0.2,"name":"query","type":"pure-dp"}],"privacy":{"adjacency":"add-remove","max_contributions":1,"unit":"user"}},"previous":"2584794a9f395aaf1f84d3d7e855e1f65877d88035966ca7e5eca529b30f7bb3","seq":3,"when":"2026-11-20T09:00:00Z","who":"ledger_owner"}	c4bf56ea732a93554383fe1c0d25c8a6b952fae7d9d4381afe9cbf4e9caf1136
visits	4	{"dataset":"visits","dpcli":"0.1.0","key":"long","kind":"start","ledger":1,"previous":"c4bf56ea732a93554383fe1c0d25c8a6b952fae7d9d4381afe9cbf4e9caf1136","seq":4,"when":"2026-11-20T09:00:00Z","who":"ledger_owner"}	14e325e7124e892f9293913b584b987ab0264f5823ab83f510e1dc8c21a7339f
visits	5	{"dataset":"visits","dpcli":"0.1.0","key":"long","kind":"commit","ledger":1,"previous":"14e325e7124e892f9293913b584b987ab0264f5823ab83f510e1dc8c21a7339f","seq":5,"when":"2026-11-20T09:00:00Z","who":"ledger_owner"}	54f4e7e940d2468e54992af1d0123a2de5d89f486e16c2e78b1e3f2c9971e719
visits	6	{"cost":{"delta":"1E-7","epsilon":"0.29999982591816704014"},"dataset":"visits","delta":"1e-07","detail":"epsilon at delta = 1e-07 by rdp","dpcli":"0.1.0","key":"never","kind":"reserve","ledger":1,"pipeline":{"mechanism":[{"epsilon":0.3,"name":"query","type":"pure-dp"}],"privacy":{"adjacency":"add-remove","max_contributions":1,"unit":"user"}},"previous":"54f4e7e940d2468e54992af1d0123a2de5d89f486e16c2e78b1e3f2c9971e719","seq":6,"when":"2026-11-20T09:00:00Z","who":"ledger_owner"}	8422e1f4d753b2b7e35b88ecb8549aa602f85cbefa8ab6b5443e8e9ed5b2c610
visits	7	{"dataset":"visits","dpcli":"0.1.0","key":"never","kind":"void","ledger":1,"previous":"8422e1f4d753b2b7e35b88ecb8549aa602f85cbefa8ab6b5443e8e9ed5b2c610","seq":7,"when":"2026-11-20T09:00:00Z","who":"ledger_owner","why":"machine was lost before the start"}	020982c535ec9780f2e1884e4a1aa716a8bde0618b62d8279e790e5c2e4ed018
visits	8	{"approver":"dpo","caps":{"delta":"0.000001","epsilon":"3"},"dataset":"visits","dpcli":"0.1.0","epsilon":3.0,"kind":"amend","ledger":1,"previous":"020982c535ec9780f2e1884e4a1aa716a8bde0618b62d8279e790e5c2e4ed018","seq":8,"when":"2026-11-20T09:00:00Z","who":"ledger_owner","why":"wider"}	47ea4ff5af37ca4d055ce5c6c4a778a27b1bde448b373f8405ed0c2c8da4a32d
visits	9	{"approver":"dpo","caps":{"delta":"0.000001","epsilon":"1.5"},"dataset":"visits","dpcli":"0.1.0","epsilon":1.5,"kind":"amend","ledger":1,"previous":"47ea4ff5af37ca4d055ce5c6c4a778a27b1bde448b373f8405ed0c2c8da4a32d","seq":9,"when":"2026-11-20T09:00:00Z","who":"ledger_owner","why":"stricter"}	50d602d84bf0f79f6ee748f2b51dea5dbb239ab3b4807ad7eddd1216d112970e
visits	10	{"cost":{"delta":"0","epsilon":"0.25"},"dataset":"visits","delta":"0.0","detail":"epsilon at delta = 0.0 by basic","dpcli":"0.1.0","key":"open end","kind":"reserve","ledger":1,"pipeline":{"mechanism":[{"epsilon":0.25,"name":"query","type":"pure-dp"}],"privacy":{"adjacency":"add-remove","max_contributions":1,"unit":"user"}},"previous":"50d602d84bf0f79f6ee748f2b51dea5dbb239ab3b4807ad7eddd1216d112970e","seq":10,"when":"2026-11-20T09:00:00Z","who":"ledger_owner"}	bc8ba6177db68ef2844d7c135cb5d63bd33a73a3e95fe194666ff1ee93e81d1b
clicks	1	{"caps":{"rdp":"2.2761782914899324481"},"dataset":"clicks","dpcli":"0.1.0","kind":"open","ledger":1,"previous":"0000000000000000000000000000000000000000000000000000000000000000","seq":1,"terms":{"adjacency":"add-remove","delta":1e-05,"epsilon":4.0,"filter":"rdp","mode":"adaptive","parameters":{"order":6.1},"schema":"223932b40e4ddab82f06357103794b2420bff108fba9e2827f6d529a152cdf26","unit":"user"},"when":"2026-11-22T01:04:06Z","who":"ledger_owner"}	c8529b8571e6d013ac19de51ee4be2737fc7f4ab7dc186878f69eb591883bcc6
clicks	2	{"cost":{"rdp":"0.57187500000000168754"},"dataset":"clicks","delta":"0.0","detail":"Renyi divergence at order 6.1","dpcli":"0.1.0","key":"g","kind":"spend","ledger":1,"pipeline":{"mechanism":[{"name":"train","noise_multiplier":4.0,"steps":3,"type":"gaussian"}],"privacy":{"adjacency":"add-remove","max_contributions":1,"unit":"user"}},"previous":"c8529b8571e6d013ac19de51ee4be2737fc7f4ab7dc186878f69eb591883bcc6","seq":2,"when":"2026-11-20T09:00:00Z","who":"ledger_owner"}	28535200689352a5520d58c5b4c56e8d4a64f7baddce40e45d24eb22b9e14b1a
clicks	3	{"cost":{"rdp":"0.042492697631896496347"},"dataset":"clicks","delta":"0.0","detail":"Renyi divergence at order 6.1","dpcli":"0.1.0","key":"dpsgd","kind":"spend","ledger":1,"pipeline":{"mechanism":[{"name":"train","noise_multiplier":1.1,"sampling":{"rate":0.01,"scheme":"poisson"},"steps":100,"type":"gaussian"}],"privacy":{"adjacency":"add-remove","max_contributions":1,"unit":"user"}},"previous":"28535200689352a5520d58c5b4c56e8d4a64f7baddce40e45d24eb22b9e14b1a","seq":3,"when":"2026-11-20T09:00:00Z","who":"ledger_owner"}	d75eaa27840628b8aef7db98140ff116111eec92a7c0c83a857f0b4d73e0b871
planned	1	{"caps":{"run 1":"2","run 2":"1"},"dataset":"planned","dpcli":"0.1.0","kind":"open","ledger":1,"previous":"0000000000000000000000000000000000000000000000000000000000000000","seq":1,"terms":{"adjacency":"add-remove","certified":{"accountant":"exact","epsilon":2.3119634216300535},"declared":[{"pipeline":{"mechanism":[{"name":"train","noise_multiplier":3.0,"type":"gaussian"}],"privacy":{"adjacency":"add-remove","max_contributions":1,"unit":"user"}},"runs":2},{"pipeline":{"mechanism":[{"epsilon":0.5,"name":"query","type":"pure-dp"}],"privacy":{"adjacency":"add-remove","max_contributions":1,"unit":"user"}},"runs":1}],"delta":1e-05,"epsilon":4.0,"mode":"declared","schema":"223932b40e4ddab82f06357103794b2420bff108fba9e2827f6d529a152cdf26","unit":"user"},"when":"2026-11-22T01:04:06Z","who":"ledger_owner"}	42894211921fc56878f07b132a4e1d2db6ee4a35fe32d556c628d508bbe2e761
planned	2	{"cost":{"run 1":"1"},"dataset":"planned","delta":"0.0","detail":"run 1 of the declared set","dpcli":"0.1.0","key":"a","kind":"spend","ledger":1,"pipeline":{"mechanism":[{"name":"train","noise_multiplier":3.0,"type":"gaussian"}],"privacy":{"adjacency":"add-remove","max_contributions":1,"unit":"user"}},"previous":"42894211921fc56878f07b132a4e1d2db6ee4a35fe32d556c628d508bbe2e761","seq":2,"when":"2026-11-20T09:00:00Z","who":"ledger_owner"}	a1fc8306a4882e497f89fdf03a13da895a25e59397db0ee9e61032afff21ec60
bricked	1	{"caps":{"delta":"0","epsilon":"1"},"dataset":"bricked","dpcli":"0.1.0","kind":"open","ledger":1,"previous":"0000000000000000000000000000000000000000000000000000000000000000","seq":1,"terms":{"adjacency":"add-remove","delta":0.0,"epsilon":1.0,"filter":"approx-dp","mode":"adaptive","schema":"223932b40e4ddab82f06357103794b2420bff108fba9e2827f6d529a152cdf26","unit":"example"},"when":"2026-11-22T01:04:07Z","who":"ledger_owner"}	1f0c84ed75bd0737a36a5160ddd64a11412d2f8853dc50f5e55d937fbbf49fc4
stopped	1	{"caps":{"delta":"0","epsilon":"1"},"dataset":"stopped","dpcli":"0.1.0","kind":"open","ledger":1,"previous":"0000000000000000000000000000000000000000000000000000000000000000","seq":1,"terms":{"adjacency":"add-remove","delta":0.0,"epsilon":1.0,"filter":"approx-dp","mode":"adaptive","schema":"223932b40e4ddab82f06357103794b2420bff108fba9e2827f6d529a152cdf26","unit":"example"},"when":"2026-11-22T01:04:07Z","who":"ledger_owner"}	137329a2aa9603670411ffd48f311128a1d0f2c009784e19c7d83d5d9c01e5d4
stopped	2	{"cost":{"delta":"0","epsilon":"0.1"},"dataset":"stopped","delta":"0.0","detail":"epsilon at delta = 0.0 by basic","dpcli":"0.1.0","expires":"2999-01-01T00:00:00Z","key":"long","kind":"reserve","ledger":1,"pipeline":{"mechanism":[{"epsilon":0.1,"name":"counts","type":"pure-dp"}],"privacy":{"adjacency":"add-remove","releases":"outputs","unit":"example"}},"previous":"137329a2aa9603670411ffd48f311128a1d0f2c009784e19c7d83d5d9c01e5d4","seq":2,"when":"2026-11-22T01:04:07Z","who":"ledger_owner"}	55cabab2c9364124aea5cf6deddada2b46cb3e2c3611593b9e2787fbccbe6a55
stopped	3	{"cost":{"delta":"0","epsilon":"0.1"},"dataset":"stopped","delta":"0.0","detail":"stated","dpcli":"0","key":"hostile","kind":"spend","ledger":1,"pipeline":{"mechanism":[{"epsilon":0.01,"name":"counts","type":"pure-dp"}],"privacy":{"adjacency":"add-remove","releases":"outputs","unit":"example"}},"previous":"55cabab2c9364124aea5cf6deddada2b46cb3e2c3611593b9e2787fbccbe6a55","seq":3,"when":"9999-12-31T23:59:59Z","who":"sam"}	851d056afc654bc9fe7d696bfd4e21e2d8f816256f5c7e3e25c718677abeb739
bricked	2	{"cost":{"delta":"0","epsilon":"0.1"},"dataset":"bricked","delta":"5","detail":"stated","dpcli":"0","key":"hostile","kind":"spend","ledger":1,"pipeline":{"mechanism":[{"epsilon":0.01,"name":"counts","type":"pure-dp"}],"privacy":{"adjacency":"add-remove","releases":"outputs","unit":"example"}},"previous":"1f0c84ed75bd0737a36a5160ddd64a11412d2f8853dc50f5e55d937fbbf49fc4","seq":2,"when":"2026-11-20T09:00:00Z","who":"sam"}	e0576b01b934ebb69fa77882680930310595ad8aa9088d300ddf2cd52c3c07f1
\.


--
-- Data for Name: format; Type: TABLE DATA; Schema: dpcli; Owner: ledger_owner
--

COPY dpcli.format (version) FROM stdin;
1
\.


--
-- Name: dataset dataset_fingerprint_key; Type: CONSTRAINT; Schema: dpcli; Owner: ledger_owner
--

ALTER TABLE ONLY dpcli.dataset
    ADD CONSTRAINT dataset_fingerprint_key UNIQUE (fingerprint);


--
-- Name: dataset dataset_pkey; Type: CONSTRAINT; Schema: dpcli; Owner: ledger_owner
--

ALTER TABLE ONLY dpcli.dataset
    ADD CONSTRAINT dataset_pkey PRIMARY KEY (name);


--
-- Name: entry entry_dataset_key_kind_key; Type: CONSTRAINT; Schema: dpcli; Owner: ledger_owner
--

ALTER TABLE ONLY dpcli.entry
    ADD CONSTRAINT entry_dataset_key_kind_key UNIQUE (dataset, key, kind);


--
-- Name: entry entry_pkey; Type: CONSTRAINT; Schema: dpcli; Owner: ledger_owner
--

ALTER TABLE ONLY dpcli.entry
    ADD CONSTRAINT entry_pkey PRIMARY KEY (dataset, seq);


--
-- Name: format format_pkey; Type: CONSTRAINT; Schema: dpcli; Owner: ledger_owner
--

ALTER TABLE ONLY dpcli.format
    ADD CONSTRAINT format_pkey PRIMARY KEY (version);


--
-- Name: dataset forward; Type: TRIGGER; Schema: dpcli; Owner: ledger_owner
--

CREATE TRIGGER forward BEFORE UPDATE ON dpcli.dataset FOR EACH ROW EXECUTE FUNCTION dpcli.forward();

ALTER TABLE dpcli.dataset ENABLE ALWAYS TRIGGER forward;


--
-- Name: dataset never; Type: TRIGGER; Schema: dpcli; Owner: ledger_owner
--

CREATE TRIGGER never BEFORE DELETE OR TRUNCATE ON dpcli.dataset FOR EACH STATEMENT EXECUTE FUNCTION dpcli.never();

ALTER TABLE dpcli.dataset ENABLE ALWAYS TRIGGER never;


--
-- Name: entry never; Type: TRIGGER; Schema: dpcli; Owner: ledger_owner
--

CREATE TRIGGER never BEFORE DELETE OR UPDATE OR TRUNCATE ON dpcli.entry FOR EACH STATEMENT EXECUTE FUNCTION dpcli.never();

ALTER TABLE dpcli.entry ENABLE ALWAYS TRIGGER never;


--
-- Name: format never; Type: TRIGGER; Schema: dpcli; Owner: ledger_owner
--

CREATE TRIGGER never BEFORE DELETE OR UPDATE OR TRUNCATE ON dpcli.format FOR EACH STATEMENT EXECUTE FUNCTION dpcli.never();

ALTER TABLE dpcli.format ENABLE ALWAYS TRIGGER never;


--
-- Name: entry entry_dataset_fkey; Type: FK CONSTRAINT; Schema: dpcli; Owner: ledger_owner
--

ALTER TABLE ONLY dpcli.entry
    ADD CONSTRAINT entry_dataset_fkey FOREIGN KEY (dataset) REFERENCES dpcli.dataset(name);


--
-- Name: dataset; Type: ROW SECURITY; Schema: dpcli; Owner: ledger_owner
--

ALTER TABLE dpcli.dataset ENABLE ROW LEVEL SECURITY;

--
-- Name: entry; Type: ROW SECURITY; Schema: dpcli; Owner: ledger_owner
--

ALTER TABLE dpcli.entry ENABLE ROW LEVEL SECURITY;

--
-- Name: dataset team; Type: POLICY; Schema: dpcli; Owner: ledger_owner
--

CREATE POLICY team ON dpcli.dataset USING (dpcli.is_member(team));


--
-- Name: entry team; Type: POLICY; Schema: dpcli; Owner: ledger_owner
--

CREATE POLICY team ON dpcli.entry USING ((dataset = ANY (( SELECT dpcli.visible() AS visible)::text[])));


--
-- Name: SCHEMA dpcli; Type: ACL; Schema: -; Owner: ledger_owner
--

GRANT USAGE ON SCHEMA dpcli TO dpcli_viewer;


--
-- Name: FUNCTION amount(spelled text); Type: ACL; Schema: dpcli; Owner: ledger_owner
--

REVOKE ALL ON FUNCTION dpcli.amount(spelled text) FROM PUBLIC;


--
-- Name: FUNCTION append(of_dataset text, new_seq bigint, new_body text, new_hash text); Type: ACL; Schema: dpcli; Owner: ledger_owner
--

REVOKE ALL ON FUNCTION dpcli.append(of_dataset text, new_seq bigint, new_body text, new_hash text) FROM PUBLIC;
GRANT ALL ON FUNCTION dpcli.append(of_dataset text, new_seq bigint, new_body text, new_hash text) TO dpcli_spender;


--
-- Name: FUNCTION canonical(value json, deep integer); Type: ACL; Schema: dpcli; Owner: ledger_owner
--

REVOKE ALL ON FUNCTION dpcli.canonical(value json, deep integer) FROM PUBLIC;


--
-- Name: FUNCTION caps(of_dataset text); Type: ACL; Schema: dpcli; Owner: ledger_owner
--

REVOKE ALL ON FUNCTION dpcli.caps(of_dataset text) FROM PUBLIC;


--
-- Name: FUNCTION check_amend(of_dataset text, content jsonb); Type: ACL; Schema: dpcli; Owner: ledger_owner
--

REVOKE ALL ON FUNCTION dpcli.check_amend(of_dataset text, content jsonb) FROM PUBLIC;


--
-- Name: FUNCTION check_charge(of_dataset text, content jsonb); Type: ACL; Schema: dpcli; Owner: ledger_owner
--

REVOKE ALL ON FUNCTION dpcli.check_charge(of_dataset text, content jsonb) FROM PUBLIC;


--
-- Name: FUNCTION check_move(of_dataset text, content jsonb); Type: ACL; Schema: dpcli; Owner: ledger_owner
--

REVOKE ALL ON FUNCTION dpcli.check_move(of_dataset text, content jsonb) FROM PUBLIC;


--
-- Name: FUNCTION check_open(of_dataset text, content jsonb, new_hash text); Type: ACL; Schema: dpcli; Owner: ledger_owner
--

REVOKE ALL ON FUNCTION dpcli.check_open(of_dataset text, content jsonb, new_hash text) FROM PUBLIC;


--
-- Name: FUNCTION exceeded(of_dataset text, more jsonb); Type: ACL; Schema: dpcli; Owner: ledger_owner
--

REVOKE ALL ON FUNCTION dpcli.exceeded(of_dataset text, more jsonb) FROM PUBLIC;


--
-- Name: FUNCTION forward(); Type: ACL; Schema: dpcli; Owner: ledger_owner
--

REVOKE ALL ON FUNCTION dpcli.forward() FROM PUBLIC;


--
-- Name: FUNCTION hold(of_dataset text, milliseconds integer); Type: ACL; Schema: dpcli; Owner: ledger_owner
--

REVOKE ALL ON FUNCTION dpcli.hold(of_dataset text, milliseconds integer) FROM PUBLIC;
GRANT ALL ON FUNCTION dpcli.hold(of_dataset text, milliseconds integer) TO dpcli_spender;


--
-- Name: FUNCTION is_member(of_team text); Type: ACL; Schema: dpcli; Owner: ledger_owner
--

REVOKE ALL ON FUNCTION dpcli.is_member(of_team text) FROM PUBLIC;
GRANT ALL ON FUNCTION dpcli.is_member(of_team text) TO dpcli_viewer;


--
-- Name: FUNCTION is_number(spelled text); Type: ACL; Schema: dpcli; Owner: ledger_owner
--

REVOKE ALL ON FUNCTION dpcli.is_number(spelled text) FROM PUBLIC;


--
-- Name: FUNCTION never(); Type: ACL; Schema: dpcli; Owner: ledger_owner
--

REVOKE ALL ON FUNCTION dpcli.never() FROM PUBLIC;


--
-- Name: FUNCTION permit(of_kind text); Type: ACL; Schema: dpcli; Owner: ledger_owner
--

REVOKE ALL ON FUNCTION dpcli.permit(of_kind text) FROM PUBLIC;


--
-- Name: FUNCTION quoted(string text); Type: ACL; Schema: dpcli; Owner: ledger_owner
--

REVOKE ALL ON FUNCTION dpcli.quoted(string text) FROM PUBLIC;


--
-- Name: FUNCTION require(holds boolean, otherwise text); Type: ACL; Schema: dpcli; Owner: ledger_owner
--

REVOKE ALL ON FUNCTION dpcli.require(holds boolean, otherwise text) FROM PUBLIC;


--
-- Name: FUNCTION require_amounts(amounts jsonb); Type: ACL; Schema: dpcli; Owner: ledger_owner
--

REVOKE ALL ON FUNCTION dpcli.require_amounts(amounts jsonb) FROM PUBLIC;


--
-- Name: FUNCTION visible(); Type: ACL; Schema: dpcli; Owner: ledger_owner
--

REVOKE ALL ON FUNCTION dpcli.visible() FROM PUBLIC;
GRANT ALL ON FUNCTION dpcli.visible() TO dpcli_viewer;


--
-- Name: TABLE dataset; Type: ACL; Schema: dpcli; Owner: ledger_owner
--

GRANT SELECT ON TABLE dpcli.dataset TO dpcli_viewer;


--
-- Name: TABLE entry; Type: ACL; Schema: dpcli; Owner: ledger_owner
--

GRANT SELECT ON TABLE dpcli.entry TO dpcli_viewer;


--
-- Name: TABLE format; Type: ACL; Schema: dpcli; Owner: ledger_owner
--

GRANT SELECT ON TABLE dpcli.format TO dpcli_viewer;


--
-- PostgreSQL database dump complete
--


