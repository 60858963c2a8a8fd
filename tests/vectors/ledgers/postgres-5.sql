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
    AS $$
BEGIN
  PERFORM dpcli.require(dpcli.is_amount(spelled), 'expected decimal numbers >= 0');
  RETURN spelled::numeric;
END $$;


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
  wrong text;
  last dpcli.dataset;
BEGIN
  PERFORM dpcli.require(new_body ~ '^[ -~]+$' AND length(new_body) <= 4000000, 'expected an entry in ASCII');
  PERFORM dpcli.require(new_hash = encode(sha256(convert_to(new_body, 'UTF8')), 'hex'), 'the hash is not that of the entry');
  PERFORM dpcli.require(new_body::json IS NOT NULL AND json_typeof(new_body::json) = 'object', 'expected an object');
  PERFORM dpcli.require(dpcli.canonical(new_body::json, 0) = new_body, 'expected an entry in its one spelling');
  content := new_body::jsonb;
  PERFORM dpcli.require(jsonb_typeof(content -> 'kind') = 'string' AND dpcli.rules() -> 'entries' ? (content ->> 'kind'),
    'expected a known kind of entry');
  PERFORM dpcli.permit(content ->> 'kind');
  PERFORM dpcli.require(content ->> 'who' = session_user, format('expected an entry signed by %s, who is logged in', session_user));
  PERFORM dpcli.require(content -> 'ledger' = '1'::jsonb, 'expected format 1');
  wrong := dpcli.wrong_table(dpcli.rules() -> 'common' || (dpcli.rules() #> ARRAY['entries', content ->> 'kind']), content);
  PERFORM dpcli.require(wrong IS NULL, wrong);
  PERFORM dpcli.require(content ->> 'dataset' = of_dataset AND content -> 'seq' = to_jsonb(new_seq), 'the entry belongs elsewhere');
  IF content ->> 'kind' = 'open' THEN
    PERFORM dpcli.check_time(of_dataset, new_seq, content ->> 'when');
    PERFORM dpcli.check_open(of_dataset, content, new_hash);
    INSERT INTO dpcli.entry VALUES (of_dataset, new_seq, new_body, new_hash);
    RETURN;
  END IF;
  SELECT d.* INTO last FROM dpcli.dataset d WHERE d.name = of_dataset AND dpcli.is_member(d.team) FOR UPDATE;
  PERFORM dpcli.require(last.name IS NOT NULL, 'no such dataset');
  PERFORM dpcli.require(new_seq = last.seq + 1 AND content ->> 'previous' = last.head, 'the entry does not follow the end of the chain');
  PERFORM dpcli.check_time(of_dataset, new_seq, content ->> 'when');
  CASE
    WHEN content ->> 'kind' IN ('spend', 'reserve') THEN PERFORM dpcli.check_charge(of_dataset, content);
    WHEN content ->> 'kind' = 'amend' THEN PERFORM dpcli.check_amend(of_dataset, content);
    WHEN content ->> 'kind' = 'retire' THEN PERFORM dpcli.check_retire(of_dataset, content);
    WHEN content ->> 'kind' = 'upgrade' THEN
      PERFORM dpcli.require(content -> 'version' = (SELECT to_jsonb(max(f.version)) FROM dpcli.format f), 'expected the version of these functions');
    ELSE PERFORM dpcli.check_move(of_dataset, content);
  END CASE;
  INSERT INTO dpcli.entry VALUES (of_dataset, new_seq, new_body, new_hash);
  UPDATE dpcli.dataset d SET seq = new_seq, head = new_hash WHERE d.name = of_dataset;
  PERFORM dpcli.note(of_dataset, new_seq);
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
  SELECT dpcli.standing(of_dataset) -> 'caps'
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
  PERFORM dpcli.require((SELECT e.body::jsonb #>> '{terms,mode}' FROM dpcli.entry e WHERE e.dataset = of_dataset AND e.seq = 1) = 'adaptive',
    'expected a ledger in adaptive mode');
  PERFORM dpcli.require(
    ARRAY(SELECT jsonb_object_keys(content -> 'caps') ORDER BY 1) = ARRAY(SELECT jsonb_object_keys(dpcli.caps(of_dataset)) ORDER BY 1),
    'expected the caps that the ledger has');
END $$;


ALTER FUNCTION dpcli.check_amend(of_dataset text, content jsonb) OWNER TO ledger_owner;

--
-- Name: check_blocks(jsonb); Type: FUNCTION; Schema: dpcli; Owner: ledger_owner
--

CREATE FUNCTION dpcli.check_blocks(terms jsonb) RETURNS void
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'dpcli', 'pg_temp'
    AS $$
DECLARE
  family jsonb := terms -> 'blocks';
  needs text := dpcli.rules() #>> ARRAY['kinds', family ->> 'by'];
  known jsonb := dpcli.rules() #> ARRAY['filters', terms ->> 'filter'];
BEGIN
  PERFORM dpcli.require(terms ->> 'mode' = 'adaptive' AND terms -> 'dataset_size' IS NULL AND terms ->> 'adjacency' <> 'replace-one',
    'expected blocks in adaptive mode, without a dataset_size, and not replace-one');
  PERFORM dpcli.require((family ? 'names') = (needs = 'names') AND (family ? 'count') = (needs = 'count'),
    'expected the terms of such blocks');
  IF family -> 'max_blocks' <> '1'::jsonb THEN
    PERFORM dpcli.require(needs <> 'count' AND known -> 'groups' = 'true'::jsonb
      AND ((terms ->> 'delta')::double precision = 0 OR NOT known -> 'currency' ? 'delta'),
      'expected max_blocks = 1, or a currency in which a group of blocks has a proved cost');
  END IF;
END $$;


ALTER FUNCTION dpcli.check_blocks(terms jsonb) OWNER TO ledger_owner;

--
-- Name: check_charge(text, jsonb); Type: FUNCTION; Schema: dpcli; Owner: ledger_owner
--

CREATE FUNCTION dpcli.check_charge(of_dataset text, content jsonb) RETURNS void
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'dpcli', 'pg_temp'
    AS $$
DECLARE
  of_key text := content ->> 'key';
  privacy jsonb := content #> '{pipeline,privacy}';
  terms jsonb := (SELECT e.body::jsonb -> 'terms' FROM dpcli.entry e WHERE e.dataset = of_dataset AND e.seq = 1);
  retired jsonb;
  over text;
BEGIN
  PERFORM dpcli.require(NOT EXISTS (SELECT FROM dpcli.entry e WHERE e.dataset = of_dataset AND e.key = of_key),
    'that key is charged already');
  PERFORM dpcli.require(privacy -> 'unit' = terms -> 'unit', 'expected a run under the ledger''s unit');
  PERFORM dpcli.require(privacy -> 'adjacency' = terms -> 'adjacency', 'expected a run under the ledger''s adjacency');
  PERFORM dpcli.require(terms -> 'dataset_size' IS NULL OR privacy -> 'dataset_size' IS NULL OR privacy -> 'dataset_size' = terms -> 'dataset_size',
    'expected a run under the ledger''s dataset_size');
  over := dpcli.wrong_window(terms -> 'blocks', content -> 'window');
  PERFORM dpcli.require(over IS NULL, over);
  IF content ? 'window' THEN
    retired := dpcli.standing(of_dataset) -> 'retired';
    PERFORM dpcli.require(NOT EXISTS (SELECT FROM jsonb_array_elements_text(content -> 'window') b (block) WHERE retired ? b.block),
      'a block of the window was retired');
  END IF;
  over := dpcli.exceeded(of_dataset, content -> 'cost', content -> 'window');
  PERFORM dpcli.require(over IS NULL, format('over the cap on %s', over));
END $$;


ALTER FUNCTION dpcli.check_charge(of_dataset text, content jsonb) OWNER TO ledger_owner;

--
-- Name: check_move(text, jsonb); Type: FUNCTION; Schema: dpcli; Owner: ledger_owner
--

CREATE FUNCTION dpcli.check_move(of_dataset text, content jsonb) RETURNS void
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'dpcli', 'pg_temp'
    AS $$
DECLARE
  so_far text[] := ARRAY(SELECT e.kind FROM dpcli.entry e WHERE e.dataset = of_dataset AND e.key = content ->> 'key');
  made jsonb := (SELECT e.body::jsonb FROM dpcli.entry e
    WHERE e.dataset = of_dataset AND e.key = content ->> 'key' AND e.kind = 'reserve');
BEGIN
  PERFORM dpcli.require('reserve' = ANY (so_far), 'expected the key of a reservation');
  PERFORM dpcli.require(NOT so_far && ARRAY['commit', 'void'], 'expected a reservation that has not ended');
  IF made ->> 'who' IS DISTINCT FROM session_user::text THEN
    IF pg_has_role(session_user, 'dpcli_admin', 'MEMBER') IS NOT TRUE THEN
      RAISE EXCEPTION USING ERRCODE = 'DPL02', MESSAGE = format('that reservation is of %s: to %s it is theirs, or that of the role dpcli_admin',
        made ->> 'who', content ->> 'kind');
    END IF;
    PERFORM dpcli.require(dpcli.is_a('said', content -> 'why'), format('expected why, as the reservation is of %s', made ->> 'who'));
  END IF;
  IF content ->> 'kind' <> 'commit' THEN
    PERFORM dpcli.require(NOT 'start' = ANY (so_far), 'expected a reservation before its start');
  END IF;
  IF content ->> 'kind' = 'void' THEN
    PERFORM dpcli.require(made ->> 'expires' IS NULL OR ((made ->> 'expires') COLLATE "C") > dpcli.now(),
      'expected a reservation within its time');
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
  terms jsonb := content -> 'terms';
  caps jsonb := content -> 'caps';
  of_team text := content #>> '{terms,team}';
  known jsonb := dpcli.rules() #> ARRAY['filters', content #>> '{terms,filter}'];
  stated jsonb := coalesce(content #> '{terms,parameters}', '{}'::jsonb);
BEGIN
  PERFORM dpcli.require(of_dataset = btrim(normalize(of_dataset, NFKC)), 'expected a name without spaces at its ends, in its usual form (NFKC)');
  PERFORM dpcli.require(content -> 'seq' = '1'::jsonb AND content ->> 'previous' = repeat('0', 64), 'expected an opening as the first entry');
  PERFORM dpcli.require((terms ->> 'delta')::double precision * coalesce(terms ->> 'dataset_size', '1')::double precision < 1,
    'expected a delta below 1/dataset_size');
  IF terms ->> 'mode' = 'declared' THEN
    PERFORM dpcli.require(terms ?& ARRAY['declared', 'certified']
      AND (terms #>> '{certified,epsilon}')::double precision <= (terms ->> 'epsilon')::double precision, 'expected declared runs within the cap');
    PERFORM dpcli.require(caps = (SELECT jsonb_object_agg('run ' || m.i, m.run ->> 'runs')
      FROM jsonb_array_elements(terms -> 'declared') WITH ORDINALITY AS m (run, i)), 'expected the caps of the declared runs');
  ELSE
    PERFORM dpcli.require(ARRAY(SELECT jsonb_object_keys(caps) ORDER BY 1) = ARRAY(SELECT jsonb_array_elements_text(known -> 'currency') ORDER BY 1),
      'expected a filter with the caps of its currency');
    PERFORM dpcli.require(ARRAY(SELECT jsonb_object_keys(stated) ORDER BY 1) = ARRAY(SELECT jsonb_object_keys(known -> 'ranges') ORDER BY 1)
      AND (SELECT coalesce(bool_and((stated ->> m.key)::double precision BETWEEN (m.value ->> 0)::double precision AND (m.value ->> 1)::double precision), true)
        FROM jsonb_each(known -> 'ranges') m), 'expected the parameters of the filter');
  END IF;
  IF terms ? 'blocks' THEN
    PERFORM dpcli.check_blocks(terms);
  END IF;
  PERFORM dpcli.require(dpcli.is_member(of_team), format('expected a team whose member you are, found %L', of_team));
  INSERT INTO dpcli.dataset VALUES (of_dataset, of_team, content #>> '{terms,fingerprint}', 1, new_hash);
END $$;


ALTER FUNCTION dpcli.check_open(of_dataset text, content jsonb, new_hash text) OWNER TO ledger_owner;

--
-- Name: check_retire(text, jsonb); Type: FUNCTION; Schema: dpcli; Owner: ledger_owner
--

CREATE FUNCTION dpcli.check_retire(of_dataset text, content jsonb) RETURNS void
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'dpcli', 'pg_temp'
    AS $$
DECLARE
  family jsonb := (SELECT e.body::jsonb #> '{terms,blocks}' FROM dpcli.entry e WHERE e.dataset = of_dataset AND e.seq = 1);
  wrong text := dpcli.wrong_window(family, content -> 'window');
BEGIN
  PERFORM dpcli.require(wrong IS NULL, wrong);
END $$;


ALTER FUNCTION dpcli.check_retire(of_dataset text, content jsonb) OWNER TO ledger_owner;

--
-- Name: check_time(text, bigint, text); Type: FUNCTION; Schema: dpcli; Owner: ledger_owner
--

CREATE FUNCTION dpcli.check_time(of_dataset text, new_seq bigint, stamp text) RETURNS void
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'dpcli', 'pg_temp'
    AS $$
DECLARE
  before text := (SELECT e.body::jsonb ->> 'when' FROM dpcli.entry e WHERE e.dataset = of_dataset AND e.seq = new_seq - 1);
  ago text := to_char((clock_timestamp() - interval '10 minutes') AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"');
BEGIN
  PERFORM dpcli.require((stamp COLLATE "C") >= ago AND (stamp COLLATE "C") <= dpcli.now(), 'expected the time by the server''s clock');
  PERFORM dpcli.require(before IS NULL OR (before COLLATE "C") > dpcli.now() OR (stamp COLLATE "C") >= before,
    'expected a time that is not before the last entry''s');
END $$;


ALTER FUNCTION dpcli.check_time(of_dataset text, new_seq bigint, stamp text) OWNER TO ledger_owner;

--
-- Name: every(); Type: FUNCTION; Schema: dpcli; Owner: ledger_owner
--

CREATE FUNCTION dpcli.every() RETURNS bigint
    LANGUAGE sql IMMUTABLE
    SET search_path TO 'pg_catalog', 'dpcli', 'pg_temp'
    AS $$
  SELECT 256::bigint
$$;


ALTER FUNCTION dpcli.every() OWNER TO ledger_owner;

--
-- Name: exceeded(text, jsonb, jsonb); Type: FUNCTION; Schema: dpcli; Owner: ledger_owner
--

CREATE FUNCTION dpcli.exceeded(of_dataset text, more jsonb, blocks jsonb DEFAULT NULL::jsonb) RETURNS text
    LANGUAGE sql STABLE
    SET search_path TO 'pg_catalog', 'dpcli', 'pg_temp'
    AS $$
  WITH so_far AS MATERIALIZED (SELECT dpcli.standing(of_dataset) AS found),
  cap AS (SELECT m.key AS name, dpcli.amount(m.value) AS most FROM so_far, jsonb_each_text(so_far.found -> 'caps') m),
  wanted AS (
    SELECT m.name, m.base, dpcli.amount(more ->> m.base) AS cost FROM dpcli.spread(more, blocks) m
    UNION ALL
    SELECT m.name, m.base, 0 FROM so_far, dpcli.spread(so_far.found -> 'caps', blocks) m
  ), part AS (
    SELECT w.name, w.base, w.cost FROM wanted w
    UNION ALL
    SELECT w.name, w.base, m.value::numeric FROM so_far, jsonb_each_text(so_far.found -> 'spent') m
      JOIN (SELECT DISTINCT wanted.name, wanted.base FROM wanted) w ON w.name = m.key
  )
  SELECT part.name FROM part LEFT JOIN cap ON cap.name = part.base
  GROUP BY part.name, cap.most HAVING (sum(part.cost) <= cap.most) IS NOT TRUE ORDER BY part.name LIMIT 1
$$;


ALTER FUNCTION dpcli.exceeded(of_dataset text, more jsonb, blocks jsonb) OWNER TO ledger_owner;

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
  PERFORM set_config('lock_timeout', greatest(1, least(milliseconds, 60000))::text, true), set_config('idle_in_transaction_session_timeout', '60000', true);
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
-- Name: is_a(text, jsonb); Type: FUNCTION; Schema: dpcli; Owner: ledger_owner
--

CREATE FUNCTION dpcli.is_a(of_type text, value jsonb) RETURNS boolean
    LANGUAGE plpgsql IMMUTABLE
    SET search_path TO 'pg_catalog', 'dpcli', 'pg_temp'
    AS $_$
DECLARE
  rules jsonb := dpcli.rules();
  plain text := value #>> '{}';
BEGIN
  IF of_type IN ('text', 'said', 'name', 'hash', 'stamp', 'delta', 'adjacency', 'mode', 'filter', 'by') THEN
    IF jsonb_typeof(value) <> 'string' THEN
      RETURN false;
    END IF;
    CASE of_type
      WHEN 'text' THEN RETURN dpcli.is_text(plain, (rules ->> 'longest')::integer);
      WHEN 'said' THEN RETURN dpcli.is_said(plain, (rules ->> 'longest')::integer);
      WHEN 'name' THEN RETURN dpcli.is_said(plain, (rules ->> 'name')::integer);
      WHEN 'hash' THEN RETURN plain ~ (rules #>> '{patterns,hash}');
      WHEN 'stamp' THEN RETURN dpcli.is_stamp(plain);
      WHEN 'delta' THEN RETURN dpcli.is_delta(plain);
      WHEN 'adjacency' THEN RETURN rules -> 'adjacencies' ? plain;
      WHEN 'mode' THEN RETURN rules -> 'modes' ? plain;
      WHEN 'by' THEN RETURN rules -> 'kinds' ? plain;
      ELSE RETURN rules -> 'filters' ? plain;
    END CASE;
  ELSIF of_type IN ('count', 'runs', 'positive', 'bound', 'share') THEN
    IF jsonb_typeof(value) <> 'number' THEN
      RETURN false;
    END IF;
    CASE of_type
      WHEN 'count' THEN RETURN plain ~ '^[0-9]{1,19}$' AND plain::numeric BETWEEN 1 AND 1000000000000000000;
      WHEN 'runs' THEN RETURN plain ~ '^[0-9]{1,19}$' AND plain::numeric BETWEEN 1 AND 1000000;
      WHEN 'positive' THEN RETURN plain::double precision > 0;
      WHEN 'bound' THEN RETURN plain::double precision >= 0;
      ELSE RETURN plain::double precision >= 0 AND plain::double precision < 1;
    END CASE;
  ELSIF of_type = 'declared' THEN
    IF jsonb_typeof(value) <> 'array' OR value = '[]'::jsonb THEN
      RETURN false;
    END IF;
    RETURN (SELECT bool_and(jsonb_typeof(m) = 'object' AND dpcli.wrong_table(rules -> 'declared', m) IS NULL) FROM jsonb_array_elements(value) m);
  ELSIF of_type = 'window' THEN
    RETURN dpcli.is_window(value);
  END IF;
  IF jsonb_typeof(value) <> 'object' THEN
    RETURN false;
  END IF;
  CASE of_type
    WHEN 'blocks' THEN RETURN dpcli.wrong_table(rules -> 'blocks', value) IS NULL;
    WHEN 'amounts' THEN
      RETURN coalesce((SELECT bool_and(jsonb_typeof(m.value) = 'string' AND dpcli.is_amount(m.value #>> '{}')) FROM jsonb_each(value) m), false);
    WHEN 'parameters' THEN
      RETURN coalesce((SELECT bool_and(CASE WHEN jsonb_typeof(m.value) = 'number'
        THEN (m.value #>> '{}')::double precision IS NOT NULL ELSE false END) FROM jsonb_each(value) m), true);
    WHEN 'pipeline' THEN
      IF value - ARRAY['privacy', 'mechanism'] <> '{}'::jsonb OR jsonb_typeof(value -> 'privacy') IS DISTINCT FROM 'object'
        OR jsonb_typeof(value -> 'mechanism') IS DISTINCT FROM 'array'
      THEN
        RETURN false;
      END IF;
      RETURN coalesce((SELECT bool_and(jsonb_typeof(m) = 'object') FROM jsonb_array_elements(value -> 'mechanism') m), false);
    WHEN 'certified' THEN RETURN dpcli.wrong_table(rules -> 'certified', value) IS NULL;
    WHEN 'terms' THEN RETURN dpcli.wrong_table(rules -> 'terms', value) IS NULL;
    ELSE RETURN false;
  END CASE;
END $_$;


ALTER FUNCTION dpcli.is_a(of_type text, value jsonb) OWNER TO ledger_owner;

--
-- Name: is_amount(text); Type: FUNCTION; Schema: dpcli; Owner: ledger_owner
--

CREATE FUNCTION dpcli.is_amount(spelled text) RETURNS boolean
    LANGUAGE plpgsql IMMUTABLE
    SET search_path TO 'pg_catalog', 'dpcli', 'pg_temp'
    AS $$
BEGIN
  IF spelled ~ (dpcli.rules() #>> '{patterns,amount}') AND length(spelled) <= 40
    AND length(ltrim(replace(split_part(spelled, 'E', 1), '.', ''), '0')) <= 20
  THEN
    RETURN spelled::numeric = 0 OR spelled::numeric BETWEEN 1e-330 AND 1e310;
  END IF;
  RETURN false;
END $$;


ALTER FUNCTION dpcli.is_amount(spelled text) OWNER TO ledger_owner;

--
-- Name: is_block(jsonb, text); Type: FUNCTION; Schema: dpcli; Owner: ledger_owner
--

CREATE FUNCTION dpcli.is_block(family jsonb, block text) RETURNS boolean
    LANGUAGE plpgsql IMMUTABLE
    SET search_path TO 'pg_catalog', 'dpcli', 'pg_temp'
    AS $_$
BEGIN
  CASE family ->> 'by'
    WHEN 'day' THEN
      IF block !~ '^[0-9]{4}-[0-9]{2}-[0-9]{2}$' OR left(block, 4) = '0000' THEN
        RETURN false;
      END IF;
      RETURN make_date(left(block, 4)::integer, substr(block, 6, 2)::integer, substr(block, 9, 2)::integer) IS NOT NULL;
    WHEN 'week' THEN
      IF block !~ '^[0-9]{4}-W[0-9]{2}$' OR left(block, 4) = '0000' THEN
        RETURN false;
      END IF;
      -- The 28th of December is always in the last week of its year.
      RETURN substr(block, 7, 2)::integer BETWEEN 1 AND date_part('week', make_date(left(block, 4)::integer, 12, 28));
    WHEN 'region' THEN RETURN family -> 'names' ? block;
    WHEN 'hash' THEN
      IF block !~ '^(0|[1-9][0-9]{0,6})$' THEN
        RETURN false;
      END IF;
      RETURN block::integer < (family ->> 'count')::integer;
    ELSE RETURN false;
  END CASE;
END $_$;


ALTER FUNCTION dpcli.is_block(family jsonb, block text) OWNER TO ledger_owner;

--
-- Name: is_delta(text); Type: FUNCTION; Schema: dpcli; Owner: ledger_owner
--

CREATE FUNCTION dpcli.is_delta(spelled text) RETURNS boolean
    LANGUAGE plpgsql IMMUTABLE
    SET search_path TO 'pg_catalog', 'dpcli', 'pg_temp'
    AS $_$
BEGIN
  IF spelled !~ '^[0-9][0-9.e-]{0,29}$' OR spelled ~ '^[0-9]+$' OR NOT dpcli.is_number(spelled) THEN
    RETURN false;
  END IF;
  RETURN spelled::double precision < 1;
END $_$;


ALTER FUNCTION dpcli.is_delta(spelled text) OWNER TO ledger_owner;

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
  digits integer;
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
  ELSIF spelled !~ '^-?[1-9]([.][0-9]*[1-9])?e([+][1-9][0-9]{1,2}|-[0-9]{2,3})$'
    OR NOT (spelled = x::text OR length(spelled) < length(x::text))
  THEN
    RETURN false;
  END IF;
  IF abs(x) >= 1e16 AND abs(x) < 1e41 THEN
    digits := length(translate(split_part(spelled, 'e', 1), '-.', ''));
    RETURN NOT EXISTS (SELECT FROM generate_series(1, digits - 1) k
      WHERE round(spelled::numeric, k - 1 - split_part(spelled, 'e', 2)::integer)::double precision = x);
  END IF;
  RETURN true;
END $_$;


ALTER FUNCTION dpcli.is_number(spelled text) OWNER TO ledger_owner;

--
-- Name: is_said(text, integer); Type: FUNCTION; Schema: dpcli; Owner: ledger_owner
--

CREATE FUNCTION dpcli.is_said(string text, longest integer) RETURNS boolean
    LANGUAGE sql IMMUTABLE
    SET search_path TO 'pg_catalog', 'dpcli', 'pg_temp'
    AS $$
  SELECT dpcli.is_text(string, longest) AND (string ~ '[!-~]' OR EXISTS (
    SELECT FROM regexp_split_to_table(string, '') c WHERE c <> '' AND NOT EXISTS (
      SELECT FROM jsonb_array_elements(dpcli.rules() -> 'spaces') r WHERE ascii(c) BETWEEN (r ->> 0)::integer AND (r ->> 1)::integer)))
$$;


ALTER FUNCTION dpcli.is_said(string text, longest integer) OWNER TO ledger_owner;

--
-- Name: is_stamp(text); Type: FUNCTION; Schema: dpcli; Owner: ledger_owner
--

CREATE FUNCTION dpcli.is_stamp(spelled text) RETURNS boolean
    LANGUAGE plpgsql IMMUTABLE
    SET search_path TO 'pg_catalog', 'dpcli', 'pg_temp'
    AS $$
BEGIN
  IF spelled !~ (dpcli.rules() #>> '{patterns,stamp}') OR left(spelled, 4) = '0000' THEN
    RETURN false;
  END IF;
  RETURN make_date(left(spelled, 4)::integer, substr(spelled, 6, 2)::integer, substr(spelled, 9, 2)::integer) IS NOT NULL;
END $$;


ALTER FUNCTION dpcli.is_stamp(spelled text) OWNER TO ledger_owner;

--
-- Name: is_text(text, integer); Type: FUNCTION; Schema: dpcli; Owner: ledger_owner
--

CREATE FUNCTION dpcli.is_text(string text, longest integer) RETURNS boolean
    LANGUAGE sql IMMUTABLE
    SET search_path TO 'pg_catalog', 'dpcli', 'pg_temp'
    AS $_$
  SELECT length(string) <= longest AND (string ~ '^[ -~]*$' OR NOT EXISTS (
    SELECT FROM regexp_split_to_table(string, '') c, jsonb_array_elements(dpcli.rules() -> 'unseen') r
    WHERE ascii(c) BETWEEN (r ->> 0)::integer AND (r ->> 1)::integer))
$_$;


ALTER FUNCTION dpcli.is_text(string text, longest integer) OWNER TO ledger_owner;

--
-- Name: is_window(jsonb); Type: FUNCTION; Schema: dpcli; Owner: ledger_owner
--

CREATE FUNCTION dpcli.is_window(value jsonb) RETURNS boolean
    LANGUAGE plpgsql IMMUTABLE
    SET search_path TO 'pg_catalog', 'dpcli', 'pg_temp'
    AS $$
BEGIN
  IF jsonb_typeof(value) IS DISTINCT FROM 'array' THEN
    RETURN false;
  ELSIF jsonb_array_length(value) NOT BETWEEN 1 AND (dpcli.rules() ->> 'window')::integer THEN
    RETURN false;
  ELSIF EXISTS (SELECT FROM jsonb_array_elements(value) m WHERE dpcli.is_a('name', m) IS NOT TRUE) THEN
    RETURN false;
  END IF;
  RETURN NOT EXISTS (SELECT FROM (
    SELECT m.name, lag(m.name) OVER (ORDER BY m.i) AS before FROM jsonb_array_elements_text(value) WITH ORDINALITY AS m (name, i)) w
    WHERE (w.before COLLATE "C") >= (w.name COLLATE "C"));
END $$;


ALTER FUNCTION dpcli.is_window(value jsonb) OWNER TO ledger_owner;

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
-- Name: note(text, bigint); Type: FUNCTION; Schema: dpcli; Owner: ledger_owner
--

CREATE FUNCTION dpcli.note(of_dataset text, new_seq bigint) RETURNS void
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'dpcli', 'pg_temp'
    AS $$
DECLARE
  said text;
BEGIN
  IF new_seq - coalesce((SELECT c.seq FROM dpcli.checkpoint c WHERE c.dataset = of_dataset), 0) >= dpcli.every() THEN
    said := dpcli.standing(of_dataset)::text;
    INSERT INTO dpcli.checkpoint VALUES (of_dataset, new_seq, said, encode(sha256(convert_to(said, 'UTF8')), 'hex'))
      ON CONFLICT (dataset) DO UPDATE SET seq = excluded.seq, body = excluded.body, digest = excluded.digest;
  END IF;
END $$;


ALTER FUNCTION dpcli.note(of_dataset text, new_seq bigint) OWNER TO ledger_owner;

--
-- Name: noted(text); Type: FUNCTION; Schema: dpcli; Owner: ledger_owner
--

CREATE FUNCTION dpcli.noted(of_dataset text) RETURNS jsonb
    LANGUAGE sql STABLE
    SET search_path TO 'pg_catalog', 'dpcli', 'pg_temp'
    AS $$
  WITH kept AS MATERIALIZED (
    SELECT CASE WHEN c.digest = encode(sha256(convert_to(c.body, 'UTF8')), 'hex') THEN c.body::jsonb END AS said
    FROM dpcli.checkpoint c WHERE c.dataset = of_dataset
  )
  SELECT k.said FROM kept k
  JOIN dpcli.entry e ON e.dataset = of_dataset AND e.seq = (k.said ->> 'seq')::bigint AND e.hash = k.said ->> 'hash'
  WHERE k.said @> jsonb_build_object('checkpoint', 1, 'dataset', of_dataset) AND jsonb_typeof(k.said -> 'seq') = 'number'
$$;


ALTER FUNCTION dpcli.noted(of_dataset text) OWNER TO ledger_owner;

--
-- Name: now(); Type: FUNCTION; Schema: dpcli; Owner: ledger_owner
--

CREATE FUNCTION dpcli.now() RETURNS text
    LANGUAGE sql
    SET search_path TO 'pg_catalog', 'dpcli', 'pg_temp'
    AS $$
  SELECT to_char(clock_timestamp() AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"')
$$;


ALTER FUNCTION dpcli.now() OWNER TO ledger_owner;

--
-- Name: permit(text); Type: FUNCTION; Schema: dpcli; Owner: ledger_owner
--

CREATE FUNCTION dpcli.permit(of_kind text) RETURNS void
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'dpcli', 'pg_temp'
    AS $$
DECLARE
  needed name := CASE WHEN of_kind IN ('open', 'amend', 'retire', 'upgrade') THEN 'dpcli_admin' ELSE 'dpcli_spender' END;
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
-- Name: rules(); Type: FUNCTION; Schema: dpcli; Owner: ledger_owner
--

CREATE FUNCTION dpcli.rules() RETURNS jsonb
    LANGUAGE sql IMMUTABLE
    SET search_path TO 'pg_catalog', 'dpcli', 'pg_temp'
    AS $_$
  SELECT '{"adjacencies":["add-remove","replace-one","zero-out"],"blocks":{"by":"by","column":"name","count":"runs?","max_blocks":"runs","names":"window?"},"certified":{"accountant":"name","epsilon":"bound"},"common":{"dataset":"name","dpcli":"text","kind":"name","ledger":"count","previous":"hash","seq":"count","when":"stamp","who":"name"},"declared":{"pipeline":"pipeline","runs":"runs"},"entries":{"amend":{"approver":"said","caps":"amounts","epsilon":"positive","why":"said"},"commit":{"key":"name","why":"text?"},"open":{"caps":"amounts","terms":"terms"},"reserve":{"cost":"amounts","delta":"delta","detail":"text?","expires":"stamp?","key":"name","pipeline":"pipeline","why":"text?","window":"window?"},"retire":{"why":"said","window":"window"},"spend":{"cost":"amounts","delta":"delta","detail":"text?","key":"name","pipeline":"pipeline","why":"text?","window":"window?"},"start":{"key":"name","why":"text?"},"upgrade":{"schema":"hash","version":"count"},"void":{"key":"name","why":"said"}},"filters":{"advanced":{"currency":["half_squares","delta"],"groups":false,"ranges":{"slack":[5e-324,0.9999999999999999]}},"approx-dp":{"currency":["epsilon","delta"],"groups":true,"ranges":{}},"gdp":{"currency":["mu_squared"],"groups":true,"ranges":{}},"rdp":{"currency":["rdp"],"groups":false,"ranges":{"order":[1.000001,1000000.0]}},"zcdp":{"currency":["rho"],"groups":true,"ranges":{}}},"kinds":{"day":"","hash":"count","region":"names","week":""},"longest":20000,"modes":["adaptive","declared"],"name":200,"patterns":{"amount":"^[0-9]{1,40}([.][0-9]{1,40})?(E[+-]?[0-9]{1,3})?$","hash":"^[0-9a-f]{64}$","stamp":"^[0-9]{4}-[0-9]{2}-[0-9]{2}T([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]Z$"},"spaces":[[32,32],[160,160],[5760,5760],[8192,8202],[8239,8239],[8287,8287],[12288,12288]],"terms":{"adjacency":"adjacency","blocks":"blocks?","certified":"certified?","dataset_size":"count?","declared":"declared?","delta":"share","epsilon":"positive","filter":"filter?","fingerprint":"name?","mode":"mode","parameters":"parameters?","schema":"hash","team":"name?","unit":"name","version":"count?"},"unseen":[[0,31],[127,159],[173,173],[847,847],[1536,1541],[1564,1564],[1757,1757],[1807,1807],[4447,4448],[6068,6069],[6155,6159],[8203,8207],[8232,8238],[8288,8303],[12644,12644],[55296,63743],[65024,65039],[65279,65279],[65440,65440],[65520,65531],[65534,65535],[69821,69821],[113824,113827],[119155,119162],[917504,1114111]],"window":2000,"words":{"adjacency":"a known adjacency","amounts":"decimal numbers >= 0 of at most 20 digits, by name","blocks":"what the blocks of a dataset are","bound":"a number >= 0","by":"a known kind of blocks","certified":"an epsilon and an accountant","count":"a whole number > 0","declared":"pipelines and how often each is run","delta":"the shortest spelling of a number in [0, 1)","filter":"a known filter","hash":"64 hexadecimal digits","mode":"a known mode","name":"at most 200 visible characters","parameters":"numbers by name","pipeline":"the privacy and the mechanisms of a pipeline","positive":"a number > 0","runs":"a whole number from 1 to 1000000","said":"a reason in visible characters","share":"a number in [0, 1)","stamp":"a time as 2030-12-31T23:59:59Z","terms":"the terms of a ledger","text":"at most 20000 visible characters","window":"1 to 2000 names of blocks, each once and in order"}}'::jsonb
$_$;


ALTER FUNCTION dpcli.rules() OWNER TO ledger_owner;

--
-- Name: spread(jsonb, jsonb); Type: FUNCTION; Schema: dpcli; Owner: ledger_owner
--

CREATE FUNCTION dpcli.spread(cost jsonb, blocks jsonb) RETURNS TABLE(name text, base text, amount numeric)
    LANGUAGE sql IMMUTABLE
    SET search_path TO 'pg_catalog', 'dpcli', 'pg_temp'
    AS $$
  SELECT m.key || coalesce('@' || b.block, ''), m.key, m.value::numeric
  FROM jsonb_each_text(cost) m LEFT JOIN jsonb_array_elements_text(blocks) b (block) ON true
$$;


ALTER FUNCTION dpcli.spread(cost jsonb, blocks jsonb) OWNER TO ledger_owner;

--
-- Name: standing(text); Type: FUNCTION; Schema: dpcli; Owner: ledger_owner
--

CREATE FUNCTION dpcli.standing(of_dataset text) RETURNS jsonb
    LANGUAGE plpgsql STABLE
    SET search_path TO 'pg_catalog', 'dpcli', 'pg_temp'
    AS $$
DECLARE
  noted jsonb := dpcli.noted(of_dataset);
  first jsonb := (SELECT e.body::jsonb FROM dpcli.entry e WHERE e.dataset = of_dataset AND e.seq = 1);
  base bigint;
BEGIN
  IF noted IS NULL THEN
    noted := jsonb_build_object('checkpoint', 1, 'dataset', of_dataset, 'seq', 1, 'charges', 0, 'last', NULL, 'under_way', '{}'::jsonb,
      'opening', (SELECT e.hash FROM dpcli.entry e WHERE e.dataset = of_dataset AND e.seq = 1), 'caps', first -> 'caps',
      'epsilon', first #> '{terms,epsilon}', 'largest', first #> '{terms,epsilon}', 'schema', first #> '{terms,schema}',
      'version', coalesce(first #> '{terms,version}', '1'::jsonb), 'latest', first -> 'when',
      'spent', (SELECT jsonb_object_agg(m.key, '0') FROM jsonb_each(first -> 'caps') m),
      'reserved', (SELECT jsonb_object_agg(m.key, '0') FROM jsonb_each(first -> 'caps') m))
      || CASE WHEN first #> '{terms,blocks}' IS NULL THEN '{}'::jsonb
        ELSE jsonb_build_object('spent', '{}'::jsonb, 'reserved', '{}'::jsonb, 'retired', '[]'::jsonb) END;
  END IF;
  base := (noted ->> 'seq')::bigint;
  RETURN (
    WITH since AS MATERIALIZED (
      SELECT e.seq, e.hash, e.kind, e.key, e.cost, CASE WHEN e.kind IN ('amend', 'upgrade') THEN e.body::jsonb END AS content,
        e.body::jsonb ->> 'when' AS stamp, e.body::jsonb -> 'window' AS blocks
      FROM dpcli.entry e WHERE e.dataset = of_dataset AND e.seq > base
    ), ended AS MATERIALIZED (
      SELECT s.kind, s.key, r.cost, r.body::jsonb -> 'window' AS blocks FROM since s JOIN dpcli.entry r ON r.dataset = of_dataset AND r.key = s.key AND r.kind = 'reserve'
      WHERE s.kind IN ('commit', 'void')
    ), part AS (
      SELECT m.key AS name, m.value::numeric AS spent, 0::numeric AS reserved FROM jsonb_each_text(noted -> 'spent') m
      UNION ALL SELECT m.key, 0, m.value::numeric FROM jsonb_each_text(noted -> 'reserved') m
      UNION ALL SELECT m.name, m.amount, CASE WHEN s.kind = 'reserve' THEN m.amount ELSE 0 END
        FROM since s, dpcli.spread(s.cost, s.blocks) m WHERE s.kind IN ('spend', 'reserve')
      UNION ALL SELECT m.name, CASE WHEN e.kind = 'void' THEN - m.amount ELSE 0 END, - m.amount
        FROM ended e, dpcli.spread(e.cost, e.blocks) m
    ), total AS (SELECT p.name, sum(p.spent)::text AS spent, sum(p.reserved)::text AS reserved FROM part p GROUP BY p.name),
    open_run AS (
      SELECT m.key, m.value FROM jsonb_each(noted -> 'under_way') m
      UNION ALL SELECT s.key, jsonb_build_array(s.seq, s.hash, 'reserved') FROM since s WHERE s.kind = 'reserve'
    ), standing AS (
      SELECT o.key, CASE WHEN EXISTS (SELECT FROM since s WHERE s.kind = 'start' AND s.key = o.key)
        THEN jsonb_set(o.value, '{2}', '"started"'::jsonb) ELSE o.value END AS value
      FROM open_run o WHERE NOT EXISTS (SELECT FROM ended e WHERE e.key = o.key)
    ), amended AS (SELECT s.seq, s.content FROM since s WHERE s.kind = 'amend')
    SELECT noted || jsonb_build_object(
      'seq', (SELECT d.seq FROM dpcli.dataset d WHERE d.name = of_dataset),
      'hash', (SELECT d.head FROM dpcli.dataset d WHERE d.name = of_dataset),
      'spent', (SELECT coalesce(jsonb_object_agg(t.name, t.spent), '{}'::jsonb) FROM total t),
      'reserved', (SELECT coalesce(jsonb_object_agg(t.name, t.reserved), '{}'::jsonb) FROM total t),
      'under_way', (SELECT coalesce(jsonb_object_agg(s.key, s.value), '{}'::jsonb) FROM standing s),
      'charges', (noted ->> 'charges')::bigint + (SELECT count(*) FROM since s WHERE s.kind IN ('spend', 'reserve')),
      'last', coalesce((SELECT to_jsonb(max(s.seq)) FROM since s WHERE s.kind IN ('spend', 'reserve')), noted -> 'last'),
      'latest', greatest((noted ->> 'latest') COLLATE "C", (SELECT max(s.stamp COLLATE "C") FROM since s
        WHERE dpcli.is_stamp(s.stamp))),
      'caps', coalesce((SELECT a.content -> 'caps' FROM amended a ORDER BY a.seq DESC LIMIT 1), noted -> 'caps'),
      'epsilon', coalesce((SELECT a.content -> 'epsilon' FROM amended a ORDER BY a.seq DESC LIMIT 1), noted -> 'epsilon'),
      'largest', greatest((noted ->> 'largest')::numeric, (SELECT max((a.content ->> 'epsilon')::numeric) FROM amended a)),
      'schema', coalesce((SELECT s.content -> 'schema' FROM since s WHERE s.kind = 'upgrade' ORDER BY s.seq DESC LIMIT 1), noted -> 'schema'),
      'version', coalesce((SELECT s.content -> 'version' FROM since s WHERE s.kind = 'upgrade' ORDER BY s.seq DESC LIMIT 1), noted -> 'version')
    ) || CASE WHEN first #> '{terms,blocks}' IS NULL THEN '{}'::jsonb ELSE jsonb_build_object('retired',
      (SELECT coalesce(jsonb_agg(r.block ORDER BY r.block COLLATE "C"), '[]'::jsonb) FROM (
        SELECT b.block FROM jsonb_array_elements_text(noted -> 'retired') b (block)
        UNION SELECT b.block FROM since s, jsonb_array_elements_text(s.blocks) b (block) WHERE s.kind = 'retire') r)) END
  );
END $$;


ALTER FUNCTION dpcli.standing(of_dataset text) OWNER TO ledger_owner;

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

--
-- Name: wrong_table(jsonb, jsonb); Type: FUNCTION; Schema: dpcli; Owner: ledger_owner
--

CREATE FUNCTION dpcli.wrong_table(names jsonb, content jsonb) RETURNS text
    LANGUAGE plpgsql IMMUTABLE
    SET search_path TO 'pg_catalog', 'dpcli', 'pg_temp'
    AS $$
DECLARE
  item record;
BEGIN
  FOR item IN SELECT m.key FROM jsonb_object_keys(content) m (key) WHERE NOT names ? m.key ORDER BY 1 LOOP
    RETURN format('expected no %s', left(item.key, 60));
  END LOOP;
  FOR item IN SELECT m.key, rtrim(m.value, '?') AS type, right(m.value, 1) = '?' AS free FROM jsonb_each_text(names) m ORDER BY 1 LOOP
    IF NOT (item.free AND NOT content ? item.key) AND dpcli.is_a(item.type, content -> item.key) IS NOT TRUE THEN
      RETURN format('expected %s: %s', item.key, dpcli.rules() #>> ARRAY['words', item.type]);
    END IF;
  END LOOP;
  RETURN NULL;
END $$;


ALTER FUNCTION dpcli.wrong_table(names jsonb, content jsonb) OWNER TO ledger_owner;

--
-- Name: wrong_window(jsonb, jsonb); Type: FUNCTION; Schema: dpcli; Owner: ledger_owner
--

CREATE FUNCTION dpcli.wrong_window(family jsonb, blocks jsonb) RETURNS text
    LANGUAGE plpgsql IMMUTABLE
    SET search_path TO 'pg_catalog', 'dpcli', 'pg_temp'
    AS $$
BEGIN
  IF family IS NULL THEN
    RETURN CASE WHEN blocks IS NOT NULL THEN 'expected no window, as the dataset is not cut into blocks' END;
  ELSIF dpcli.is_window(blocks) IS NOT TRUE THEN
    RETURN 'expected the blocks that are read';
  END IF;
  RETURN (SELECT format('expected a block of the dataset, found %L', left(b.block, 60)) FROM jsonb_array_elements_text(blocks) b (block)
    WHERE dpcli.is_block(family, b.block) IS NOT TRUE LIMIT 1);
END $$;


ALTER FUNCTION dpcli.wrong_window(family jsonb, blocks jsonb) OWNER TO ledger_owner;

SET default_tablespace = '';

SET default_table_access_method = heap;

--
-- Name: checkpoint; Type: TABLE; Schema: dpcli; Owner: ledger_owner
--

CREATE TABLE dpcli.checkpoint (
    dataset text NOT NULL,
    seq bigint NOT NULL,
    body text NOT NULL,
    digest text NOT NULL
);

ALTER TABLE ONLY dpcli.checkpoint FORCE ROW LEVEL SECURITY;


ALTER TABLE dpcli.checkpoint OWNER TO ledger_owner;

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
-- Data for Name: checkpoint; Type: TABLE DATA; Schema: dpcli; Owner: ledger_owner
--

COPY dpcli.checkpoint (dataset, seq, body, digest) FROM stdin;
\.


--
-- Data for Name: dataset; Type: TABLE DATA; Schema: dpcli; Owner: ledger_owner
--

COPY dpcli.dataset (name, team, fingerprint, seq, head) FROM stdin;
visits	\N	ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff	11	b9107e0ce9d02768e3d4990d5fb1a2f25fac12551545dfd846d8920ce24db672
clicks	\N	\N	3	0a0d9e9d46845e4ca2f7dca0bc653a52551eda1467ebe9065945088782ce7d0c
days	\N	\N	7	691b0cde9778dacb4664e60159df426ccc72bf0191ce8cf16a740a618e97dc7f
planned	\N	\N	2	c11f7d1760766438ed2aed58e6e786dac28bde768be296ceb05323f235468934
\.


--
-- Data for Name: entry; Type: TABLE DATA; Schema: dpcli; Owner: ledger_owner
--

COPY dpcli.entry (dataset, seq, body, hash) FROM stdin;
visits	1	{"caps":{"delta":"0.000001","epsilon":"1"},"dataset":"visits","dpcli":"0.1.0","kind":"open","ledger":1,"previous":"0000000000000000000000000000000000000000000000000000000000000000","seq":1,"terms":{"adjacency":"add-remove","dataset_size":50000,"delta":1e-06,"epsilon":1.0,"filter":"approx-dp","fingerprint":"ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff","mode":"adaptive","schema":"b915440c95b7b3f6525994efacf2aef80da827acced8bafcc634af82f0995741","unit":"user","version":5},"when":"2026-11-25T19:45:23Z","who":"ledger_owner"}	ab36b03eb7b23e6bb6e53eb80a706800d4a2e9e7344bcc59dfef0ebeea7a2910
visits	2	{"cost":{"delta":"0","epsilon":"0.1"},"dataset":"visits","delta":"0.0","detail":"epsilon at delta = 0.0 by basic","dpcli":"0.1.0","key":"first","kind":"spend","ledger":1,"pipeline":{"mechanism":[{"epsilon":0.1,"name":"query","type":"pure-dp"}],"privacy":{"adjacency":"add-remove","max_contributions":1,"unit":"user"}},"previous":"ab36b03eb7b23e6bb6e53eb80a706800d4a2e9e7344bcc59dfef0ebeea7a2910","seq":2,"when":"2026-11-25T19:45:23Z","who":"ledger_owner","why":"a first look"}	eac6d5447313a2aa3ab9814cddf79c3b115fba42086acf121cc6c9cc96ec4db9
visits	3	{"cost":{"delta":"0","epsilon":"0.2"},"dataset":"visits","delta":"0.0","detail":"epsilon at delta = 0.0 by basic","dpcli":"0.1.0","expires":"2999-01-01T00:00:00Z","key":"long","kind":"reserve","ledger":1,"pipeline":{"mechanism":[{"epsilon":0.2,"name":"query","type":"pure-dp"}],"privacy":{"adjacency":"add-remove","max_contributions":1,"unit":"user"}},"previous":"eac6d5447313a2aa3ab9814cddf79c3b115fba42086acf121cc6c9cc96ec4db9","seq":3,"when":"2026-11-25T19:45:23Z","who":"ledger_owner","why":"the night"}	dcac894045c3fec318166d2e35c842cb6dd97212da7f94e0c55c9d31c6b268da
visits	4	{"dataset":"visits","dpcli":"0.1.0","key":"long","kind":"start","ledger":1,"previous":"dcac894045c3fec318166d2e35c842cb6dd97212da7f94e0c55c9d31c6b268da","seq":4,"when":"2026-11-25T19:45:23Z","who":"ledger_owner"}	99b7e39cb7684c64a12887edafa1fd9e7682e345610b644803fad74618b9597a
visits	5	{"dataset":"visits","dpcli":"0.1.0","key":"long","kind":"commit","ledger":1,"previous":"99b7e39cb7684c64a12887edafa1fd9e7682e345610b644803fad74618b9597a","seq":5,"when":"2026-11-25T19:45:23Z","who":"ledger_owner"}	f7d2a3af0cd92d56b8ae897c449654e789339ad075a7a755cdcf1e6baa83e8dc
visits	6	{"cost":{"delta":"0","epsilon":"0.3"},"dataset":"visits","delta":"0.0","detail":"epsilon at delta = 0.0 by basic","dpcli":"0.1.0","expires":"2999-01-01T00:00:00Z","key":"cancelled","kind":"reserve","ledger":1,"pipeline":{"mechanism":[{"epsilon":0.3,"name":"query","type":"pure-dp"}],"privacy":{"adjacency":"add-remove","max_contributions":1,"unit":"user"}},"previous":"f7d2a3af0cd92d56b8ae897c449654e789339ad075a7a755cdcf1e6baa83e8dc","seq":6,"when":"2026-11-25T19:45:23Z","who":"ledger_owner"}	46510ffa7225097c2f597afa8b489166ef0f0df90a8caea8c0e7729b279b7492
visits	7	{"dataset":"visits","dpcli":"0.1.0","key":"cancelled","kind":"void","ledger":1,"previous":"46510ffa7225097c2f597afa8b489166ef0f0df90a8caea8c0e7729b279b7492","seq":7,"when":"2026-11-25T19:45:23Z","who":"ledger_owner","why":"the job never started"}	a0ba2cbe1d4090be768c33919e8f0e4d40e12eac44058dcc17211e29d172d2ff
visits	8	{"approver":"the board","caps":{"delta":"0.000001","epsilon":"1.5"},"dataset":"visits","dpcli":"0.1.0","epsilon":1.5,"kind":"amend","ledger":1,"previous":"a0ba2cbe1d4090be768c33919e8f0e4d40e12eac44058dcc17211e29d172d2ff","seq":8,"when":"2026-11-25T19:45:23Z","who":"ledger_owner","why":"a second question"}	50c70fb449969c6eec1de70de26cd359bdca22acb118179fb7a9bebdb2da84b5
visits	9	{"cost":{"delta":"0","epsilon":"0.25"},"dataset":"visits","delta":"0.0","detail":"epsilon at delta = 0.0 by basic","dpcli":"0.1.0","expires":"2999-01-01T00:00:00Z","key":"under way","kind":"reserve","ledger":1,"pipeline":{"mechanism":[{"epsilon":0.25,"name":"query","type":"pure-dp"}],"privacy":{"adjacency":"add-remove","max_contributions":1,"unit":"user"}},"previous":"50c70fb449969c6eec1de70de26cd359bdca22acb118179fb7a9bebdb2da84b5","seq":9,"when":"2026-11-25T19:45:23Z","who":"ledger_owner"}	0f2d55bb9c333d60c7cd61b3d0642c13d3ebe95ef9fb2e322c2eb550a894ce5a
visits	10	{"dataset":"visits","dpcli":"0.1.0","key":"under way","kind":"start","ledger":1,"previous":"0f2d55bb9c333d60c7cd61b3d0642c13d3ebe95ef9fb2e322c2eb550a894ce5a","seq":10,"when":"2026-11-25T19:45:23Z","who":"ledger_owner"}	42b2fe9f62d28b7b0689d6f0ba7f0d5faccb658c2f5297a748e4ff2e72f0d052
visits	11	{"cost":{"delta":"0","epsilon":"0.125"},"dataset":"visits","delta":"0.0","detail":"epsilon at delta = 0.0 by basic","dpcli":"0.1.0","expires":"2999-01-01T00:00:00Z","key":"waiting","kind":"reserve","ledger":1,"pipeline":{"mechanism":[{"epsilon":0.125,"name":"query","type":"pure-dp"}],"privacy":{"adjacency":"add-remove","max_contributions":1,"unit":"user"}},"previous":"42b2fe9f62d28b7b0689d6f0ba7f0d5faccb658c2f5297a748e4ff2e72f0d052","seq":11,"when":"2026-11-25T19:45:23Z","who":"ledger_owner"}	b9107e0ce9d02768e3d4990d5fb1a2f25fac12551545dfd846d8920ce24db672
clicks	1	{"caps":{"rdp":"2.4569501045838482156"},"dataset":"clicks","dpcli":"0.1.0","kind":"open","ledger":1,"previous":"0000000000000000000000000000000000000000000000000000000000000000","seq":1,"terms":{"adjacency":"add-remove","delta":1e-06,"epsilon":4.0,"filter":"rdp","mode":"adaptive","parameters":{"order":8.0},"schema":"b915440c95b7b3f6525994efacf2aef80da827acced8bafcc634af82f0995741","unit":"user","version":5},"when":"2026-11-25T19:45:23Z","who":"ledger_owner"}	775fa05a4a8fcec3617dc53c307febb9d2d1384d47d6ef578fd7fc51466464fd
clicks	2	{"cost":{"rdp":"0.00025899123012430380967"},"dataset":"clicks","delta":"0.0","detail":"Renyi divergence at order 8","dpcli":"0.1.0","key":"sampled","kind":"spend","ledger":1,"pipeline":{"mechanism":[{"name":"train","noise_multiplier":4.0,"sampling":{"rate":0.01,"scheme":"poisson"},"steps":10,"type":"gaussian"}],"privacy":{"adjacency":"add-remove","max_contributions":1,"unit":"user"}},"previous":"775fa05a4a8fcec3617dc53c307febb9d2d1384d47d6ef578fd7fc51466464fd","seq":2,"when":"2026-11-25T19:45:23Z","who":"ledger_owner","why":"L\\u00e4ufe \\u65e5\\u672c"}	3b69df275ee93b2a640146d55954394547463f23bbd769f1184604863ad241fd
clicks	3	{"cost":{"rdp":"0.0044444444444444583184"},"dataset":"clicks","delta":"0.0","detail":"Renyi divergence at order 8","dpcli":"0.1.0","key":"plain","kind":"spend","ledger":1,"pipeline":{"mechanism":[{"name":"train","noise_multiplier":30.0,"type":"gaussian"}],"privacy":{"adjacency":"add-remove","max_contributions":1,"unit":"user"}},"previous":"3b69df275ee93b2a640146d55954394547463f23bbd769f1184604863ad241fd","seq":3,"when":"2026-11-25T19:45:23Z","who":"ledger_owner"}	0a0d9e9d46845e4ca2f7dca0bc653a52551eda1467ebe9065945088782ce7d0c
days	1	{"caps":{"rho":"0.18506984065336790079"},"dataset":"days","dpcli":"0.1.0","kind":"open","ledger":1,"previous":"0000000000000000000000000000000000000000000000000000000000000000","seq":1,"terms":{"adjacency":"add-remove","blocks":{"by":"day","column":"event_date","max_blocks":1},"delta":1e-06,"epsilon":3.0,"filter":"zcdp","mode":"adaptive","schema":"b915440c95b7b3f6525994efacf2aef80da827acced8bafcc634af82f0995741","unit":"user","version":5},"when":"2026-11-25T19:45:23Z","who":"ledger_owner"}	b2172b33d71ae99967a38e3ee53540b98aa82176025b670dd05482b209e69a8f
days	2	{"cost":{"rho":"0.020000000000000024703"},"dataset":"days","delta":"0.0","detail":"sum of rho","dpcli":"0.1.0","key":"one","kind":"spend","ledger":1,"pipeline":{"mechanism":[{"name":"train","noise_multiplier":5.0,"type":"gaussian"}],"privacy":{"adjacency":"add-remove","max_contributions":1,"unit":"user"}},"previous":"b2172b33d71ae99967a38e3ee53540b98aa82176025b670dd05482b209e69a8f","seq":2,"when":"2026-11-25T19:45:23Z","who":"ledger_owner","window":["2026-01-01","2026-01-02","2026-01-03","2026-01-04","2026-01-05","2026-01-06","2026-01-07","2026-01-08","2026-01-09","2026-01-10","2026-01-11","2026-01-12","2026-01-13","2026-01-14"]}	00e8210c999003654062f0f331c427bed24838ada2ed3a1613d3db4376412c2b
days	3	{"cost":{"rho":"0.020000000000000024703"},"dataset":"days","delta":"0.0","detail":"sum of rho","dpcli":"0.1.0","expires":"2999-01-01T00:00:00Z","key":"two","kind":"reserve","ledger":1,"pipeline":{"mechanism":[{"name":"train","noise_multiplier":5.0,"type":"gaussian"}],"privacy":{"adjacency":"add-remove","max_contributions":1,"unit":"user"}},"previous":"00e8210c999003654062f0f331c427bed24838ada2ed3a1613d3db4376412c2b","seq":3,"when":"2026-11-25T19:45:24Z","who":"ledger_owner","window":["2026-01-08","2026-01-09","2026-01-10"]}	69961235f671d39e20ba68fefc21a12245228f1844a8a82b47b6e95cfcb30eff
days	4	{"dataset":"days","dpcli":"0.1.0","kind":"retire","ledger":1,"previous":"69961235f671d39e20ba68fefc21a12245228f1844a8a82b47b6e95cfcb30eff","seq":4,"when":"2026-11-25T19:45:24Z","who":"ledger_owner","why":"deleted","window":["2026-01-01","2026-01-02","2026-01-03"]}	af9a99da1c93b96a084bd07889039a057f06f141a721fb49313593a948cf7b90
days	5	{"cost":{"rho":"0.031250000000000034695"},"dataset":"days","delta":"0.0","detail":"sum of rho","dpcli":"0.1.0","key":"three","kind":"spend","ledger":1,"pipeline":{"mechanism":[{"name":"train","noise_multiplier":4.0,"type":"gaussian"}],"privacy":{"adjacency":"add-remove","max_contributions":1,"unit":"user"}},"previous":"af9a99da1c93b96a084bd07889039a057f06f141a721fb49313593a948cf7b90","seq":5,"when":"2026-11-25T19:45:24Z","who":"ledger_owner","window":["2026-01-04"]}	7e87566000a6adb4bc1e98bca3e361a208c363fb3675c9d931c8eabffe0d031b
days	6	{"approver":"the board","caps":{"rho":"0.24464169425037299299"},"dataset":"days","dpcli":"0.1.0","epsilon":3.5,"kind":"amend","ledger":1,"previous":"7e87566000a6adb4bc1e98bca3e361a208c363fb3675c9d931c8eabffe0d031b","seq":6,"when":"2026-11-25T19:45:24Z","who":"ledger_owner","why":"more"}	138ef5bdfac6b57ea6ee4328a109104cdb536ab6f5e43f77f82d4cc3b3071fff
days	7	{"cost":{"rho":"0.0061728395061728461025"},"dataset":"days","delta":"0.0","detail":"sum of rho","dpcli":"0.1.0","key":"four","kind":"spend","ledger":1,"pipeline":{"mechanism":[{"name":"train","noise_multiplier":9.0,"type":"gaussian"}],"privacy":{"adjacency":"add-remove","max_contributions":1,"unit":"user"}},"previous":"138ef5bdfac6b57ea6ee4328a109104cdb536ab6f5e43f77f82d4cc3b3071fff","seq":7,"when":"2026-11-25T19:45:24Z","who":"ledger_owner","window":["2026-02-28","2026-03-01","2026-03-02"]}	691b0cde9778dacb4664e60159df426ccc72bf0191ce8cf16a740a618e97dc7f
planned	1	{"caps":{"run 1":"2"},"dataset":"planned","dpcli":"0.1.0","kind":"open","ledger":1,"previous":"0000000000000000000000000000000000000000000000000000000000000000","seq":1,"terms":{"adjacency":"add-remove","certified":{"accountant":"optimal","epsilon":0.9999974190559088},"declared":[{"pipeline":{"mechanism":[{"epsilon":0.5,"name":"query","type":"pure-dp"}],"privacy":{"adjacency":"add-remove","max_contributions":1,"unit":"user"}},"runs":2}],"delta":1e-06,"epsilon":2.0,"mode":"declared","schema":"b915440c95b7b3f6525994efacf2aef80da827acced8bafcc634af82f0995741","unit":"user","version":5},"when":"2026-11-25T19:45:24Z","who":"ledger_owner"}	75dc3b9f2beb06cad3003e2df59972226287613394bb4fcdfe6667f9484c7163
planned	2	{"cost":{"run 1":"1"},"dataset":"planned","delta":"0.0","detail":"run 1 of the declared set","dpcli":"0.1.0","key":"once","kind":"spend","ledger":1,"pipeline":{"mechanism":[{"epsilon":0.5,"name":"query","type":"pure-dp"}],"privacy":{"adjacency":"add-remove","max_contributions":1,"unit":"user"}},"previous":"75dc3b9f2beb06cad3003e2df59972226287613394bb4fcdfe6667f9484c7163","seq":2,"when":"2026-11-25T19:45:24Z","who":"ledger_owner"}	c11f7d1760766438ed2aed58e6e786dac28bde768be296ceb05323f235468934
\.


--
-- Data for Name: format; Type: TABLE DATA; Schema: dpcli; Owner: ledger_owner
--

COPY dpcli.format (version) FROM stdin;
5
\.


--
-- Name: checkpoint checkpoint_pkey; Type: CONSTRAINT; Schema: dpcli; Owner: ledger_owner
--

ALTER TABLE ONLY dpcli.checkpoint
    ADD CONSTRAINT checkpoint_pkey PRIMARY KEY (dataset);


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
-- Name: checkpoint never; Type: TRIGGER; Schema: dpcli; Owner: ledger_owner
--

CREATE TRIGGER never BEFORE DELETE OR TRUNCATE ON dpcli.checkpoint FOR EACH STATEMENT EXECUTE FUNCTION dpcli.never();

ALTER TABLE dpcli.checkpoint ENABLE ALWAYS TRIGGER never;


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
-- Name: checkpoint checkpoint_dataset_fkey; Type: FK CONSTRAINT; Schema: dpcli; Owner: ledger_owner
--

ALTER TABLE ONLY dpcli.checkpoint
    ADD CONSTRAINT checkpoint_dataset_fkey FOREIGN KEY (dataset) REFERENCES dpcli.dataset(name);


--
-- Name: entry entry_dataset_fkey; Type: FK CONSTRAINT; Schema: dpcli; Owner: ledger_owner
--

ALTER TABLE ONLY dpcli.entry
    ADD CONSTRAINT entry_dataset_fkey FOREIGN KEY (dataset) REFERENCES dpcli.dataset(name);


--
-- Name: checkpoint; Type: ROW SECURITY; Schema: dpcli; Owner: ledger_owner
--

ALTER TABLE dpcli.checkpoint ENABLE ROW LEVEL SECURITY;

--
-- Name: dataset; Type: ROW SECURITY; Schema: dpcli; Owner: ledger_owner
--

ALTER TABLE dpcli.dataset ENABLE ROW LEVEL SECURITY;

--
-- Name: entry; Type: ROW SECURITY; Schema: dpcli; Owner: ledger_owner
--

ALTER TABLE dpcli.entry ENABLE ROW LEVEL SECURITY;

--
-- Name: checkpoint team; Type: POLICY; Schema: dpcli; Owner: ledger_owner
--

CREATE POLICY team ON dpcli.checkpoint USING ((dataset = ANY (( SELECT dpcli.visible() AS visible)::text[])));


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
-- Name: FUNCTION check_blocks(terms jsonb); Type: ACL; Schema: dpcli; Owner: ledger_owner
--

REVOKE ALL ON FUNCTION dpcli.check_blocks(terms jsonb) FROM PUBLIC;


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
-- Name: FUNCTION check_retire(of_dataset text, content jsonb); Type: ACL; Schema: dpcli; Owner: ledger_owner
--

REVOKE ALL ON FUNCTION dpcli.check_retire(of_dataset text, content jsonb) FROM PUBLIC;


--
-- Name: FUNCTION check_time(of_dataset text, new_seq bigint, stamp text); Type: ACL; Schema: dpcli; Owner: ledger_owner
--

REVOKE ALL ON FUNCTION dpcli.check_time(of_dataset text, new_seq bigint, stamp text) FROM PUBLIC;


--
-- Name: FUNCTION every(); Type: ACL; Schema: dpcli; Owner: ledger_owner
--

REVOKE ALL ON FUNCTION dpcli.every() FROM PUBLIC;


--
-- Name: FUNCTION exceeded(of_dataset text, more jsonb, blocks jsonb); Type: ACL; Schema: dpcli; Owner: ledger_owner
--

REVOKE ALL ON FUNCTION dpcli.exceeded(of_dataset text, more jsonb, blocks jsonb) FROM PUBLIC;


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
-- Name: FUNCTION is_a(of_type text, value jsonb); Type: ACL; Schema: dpcli; Owner: ledger_owner
--

REVOKE ALL ON FUNCTION dpcli.is_a(of_type text, value jsonb) FROM PUBLIC;


--
-- Name: FUNCTION is_amount(spelled text); Type: ACL; Schema: dpcli; Owner: ledger_owner
--

REVOKE ALL ON FUNCTION dpcli.is_amount(spelled text) FROM PUBLIC;


--
-- Name: FUNCTION is_block(family jsonb, block text); Type: ACL; Schema: dpcli; Owner: ledger_owner
--

REVOKE ALL ON FUNCTION dpcli.is_block(family jsonb, block text) FROM PUBLIC;


--
-- Name: FUNCTION is_delta(spelled text); Type: ACL; Schema: dpcli; Owner: ledger_owner
--

REVOKE ALL ON FUNCTION dpcli.is_delta(spelled text) FROM PUBLIC;


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
-- Name: FUNCTION is_said(string text, longest integer); Type: ACL; Schema: dpcli; Owner: ledger_owner
--

REVOKE ALL ON FUNCTION dpcli.is_said(string text, longest integer) FROM PUBLIC;


--
-- Name: FUNCTION is_stamp(spelled text); Type: ACL; Schema: dpcli; Owner: ledger_owner
--

REVOKE ALL ON FUNCTION dpcli.is_stamp(spelled text) FROM PUBLIC;


--
-- Name: FUNCTION is_text(string text, longest integer); Type: ACL; Schema: dpcli; Owner: ledger_owner
--

REVOKE ALL ON FUNCTION dpcli.is_text(string text, longest integer) FROM PUBLIC;


--
-- Name: FUNCTION is_window(value jsonb); Type: ACL; Schema: dpcli; Owner: ledger_owner
--

REVOKE ALL ON FUNCTION dpcli.is_window(value jsonb) FROM PUBLIC;


--
-- Name: FUNCTION never(); Type: ACL; Schema: dpcli; Owner: ledger_owner
--

REVOKE ALL ON FUNCTION dpcli.never() FROM PUBLIC;


--
-- Name: FUNCTION note(of_dataset text, new_seq bigint); Type: ACL; Schema: dpcli; Owner: ledger_owner
--

REVOKE ALL ON FUNCTION dpcli.note(of_dataset text, new_seq bigint) FROM PUBLIC;


--
-- Name: FUNCTION noted(of_dataset text); Type: ACL; Schema: dpcli; Owner: ledger_owner
--

REVOKE ALL ON FUNCTION dpcli.noted(of_dataset text) FROM PUBLIC;


--
-- Name: FUNCTION now(); Type: ACL; Schema: dpcli; Owner: ledger_owner
--

REVOKE ALL ON FUNCTION dpcli.now() FROM PUBLIC;


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
-- Name: FUNCTION rules(); Type: ACL; Schema: dpcli; Owner: ledger_owner
--

REVOKE ALL ON FUNCTION dpcli.rules() FROM PUBLIC;


--
-- Name: FUNCTION spread(cost jsonb, blocks jsonb); Type: ACL; Schema: dpcli; Owner: ledger_owner
--

REVOKE ALL ON FUNCTION dpcli.spread(cost jsonb, blocks jsonb) FROM PUBLIC;


--
-- Name: FUNCTION standing(of_dataset text); Type: ACL; Schema: dpcli; Owner: ledger_owner
--

REVOKE ALL ON FUNCTION dpcli.standing(of_dataset text) FROM PUBLIC;


--
-- Name: FUNCTION visible(); Type: ACL; Schema: dpcli; Owner: ledger_owner
--

REVOKE ALL ON FUNCTION dpcli.visible() FROM PUBLIC;
GRANT ALL ON FUNCTION dpcli.visible() TO dpcli_viewer;


--
-- Name: FUNCTION wrong_table(names jsonb, content jsonb); Type: ACL; Schema: dpcli; Owner: ledger_owner
--

REVOKE ALL ON FUNCTION dpcli.wrong_table(names jsonb, content jsonb) FROM PUBLIC;


--
-- Name: FUNCTION wrong_window(family jsonb, blocks jsonb); Type: ACL; Schema: dpcli; Owner: ledger_owner
--

REVOKE ALL ON FUNCTION dpcli.wrong_window(family jsonb, blocks jsonb) FROM PUBLIC;


--
-- Name: TABLE checkpoint; Type: ACL; Schema: dpcli; Owner: ledger_owner
--

GRANT SELECT ON TABLE dpcli.checkpoint TO dpcli_viewer;


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


