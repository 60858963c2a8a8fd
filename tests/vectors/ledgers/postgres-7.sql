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
-- Name: above(jsonb, jsonb, jsonb); Type: FUNCTION; Schema: dpcli; Owner: ledger_owner
--

CREATE FUNCTION dpcli.above(found jsonb, more jsonb, blocks jsonb) RETURNS text
    LANGUAGE sql IMMUTABLE
    SET search_path TO 'pg_catalog', 'dpcli', 'pg_temp'
    AS $$
  WITH cap AS (SELECT m.key AS name, dpcli.amount(m.value) AS most FROM jsonb_each_text(found -> 'caps') m),
  wanted AS (
    SELECT m.name, m.base, dpcli.amount(more ->> m.base) AS cost FROM dpcli.spread(more, blocks) m
    UNION ALL
    SELECT m.name, m.base, 0 FROM dpcli.spread(found -> 'caps', blocks) m
  ), part AS (
    SELECT w.name, w.base, w.cost FROM wanted w
    UNION ALL
    SELECT w.name, w.base, m.value::numeric FROM jsonb_each_text(found -> 'spent') m
      JOIN (SELECT DISTINCT wanted.name, wanted.base FROM wanted) w ON w.name = m.key
  )
  SELECT part.name FROM part LEFT JOIN cap ON cap.name = part.base
  GROUP BY part.name, cap.most HAVING (sum(part.cost) <= cap.most) IS NOT TRUE ORDER BY part.name LIMIT 1
$$;


ALTER FUNCTION dpcli.above(found jsonb, more jsonb, blocks jsonb) OWNER TO ledger_owner;

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
  PERFORM dpcli.check_moving(of_dataset, content);
  PERFORM dpcli.require(new_seq = last.seq + 1 AND content ->> 'previous' = last.head, 'the entry does not follow the end of the chain');
  PERFORM dpcli.check_time(of_dataset, new_seq, content ->> 'when');
  PERFORM dpcli.check_two(of_dataset, content);
  CASE
    WHEN content ->> 'kind' IN ('spend', 'reserve') THEN PERFORM dpcli.check_charge(of_dataset, content);
    WHEN content ->> 'kind' IN ('moved', 'copied') THEN NULL;
    WHEN content ->> 'kind' = 'amend' THEN PERFORM dpcli.check_amend(of_dataset, content);
    WHEN content ->> 'kind' = 'quota' THEN PERFORM dpcli.check_quota(of_dataset, content);
    WHEN content ->> 'kind' = 'retire' THEN PERFORM dpcli.check_retire(of_dataset, content);
    WHEN content ->> 'kind' = 'propose' THEN PERFORM dpcli.check_propose(of_dataset, content);
    WHEN content ->> 'kind' = 'refuse' THEN NULL;
    WHEN content ->> 'kind' = 'count' THEN PERFORM dpcli.check_count(of_dataset, content);
    WHEN content ->> 'kind' = 'upgrade' THEN
      PERFORM dpcli.require(content -> 'version' = (SELECT to_jsonb(max(f.version)) FROM dpcli.format f), 'expected the version of these functions');
    ELSE PERFORM dpcli.check_move(of_dataset, content);
  END CASE;
  INSERT INTO dpcli.entry VALUES (of_dataset, new_seq, new_body, new_hash);
  UPDATE dpcli.dataset d SET seq = new_seq, head = new_hash WHERE d.name = of_dataset;
  PERFORM dpcli.note(of_dataset, new_seq, content ->> 'kind' = 'quota');
END $_$;


ALTER FUNCTION dpcli.append(of_dataset text, new_seq bigint, new_body text, new_hash text) OWNER TO ledger_owner;

--
-- Name: canonical(json, integer); Type: FUNCTION; Schema: dpcli; Owner: ledger_owner
--

CREATE FUNCTION dpcli.canonical(value json, deep integer) RETURNS text
    LANGUAGE plpgsql IMMUTABLE
    SET search_path TO 'pg_catalog', 'dpcli', 'pg_temp'
    AS $$
DECLARE
  once boolean;
  spelled text;
BEGIN
  PERFORM dpcli.require(deep < 50, 'expected an entry of less depth');
  CASE json_typeof(value)
    WHEN 'object' THEN
      SELECT count(*) = count(DISTINCT m.key COLLATE "C"), '{' || coalesce(string_agg(
        dpcli.quoted(m.key) || ':' || dpcli.canonical(m.value, deep + 1), ',' ORDER BY m.key COLLATE "C"), '') || '}'
      INTO once, spelled FROM json_each(value) m;
      PERFORM dpcli.require(once, 'expected every name in an entry once');
      RETURN spelled;
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
  found jsonb;
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
  found := dpcli.standing(of_dataset, content -> 'window');
  PERFORM dpcli.require(NOT content ? 'window' OR found -> 'retired' = '[]'::jsonb, 'a block of the window was retired');
  over := dpcli.above(found, content -> 'cost', content -> 'window');
  PERFORM dpcli.require(over IS NULL, format('over the cap on %s', over));
  IF found ? 'quotas' THEN
    over := dpcli.over_quota(of_dataset, found, session_user::text, content -> 'cost', content -> 'window');
    PERFORM dpcli.require(over IS NULL, over);
  END IF;
END $$;


ALTER FUNCTION dpcli.check_charge(of_dataset text, content jsonb) OWNER TO ledger_owner;

--
-- Name: check_count(text, jsonb); Type: FUNCTION; Schema: dpcli; Owner: ledger_owner
--

CREATE FUNCTION dpcli.check_count(of_dataset text, content jsonb) RETURNS void
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'dpcli', 'pg_temp'
    AS $$
DECLARE
  made text := (SELECT e.body::jsonb ->> 'who' FROM dpcli.entry e
    WHERE e.dataset = of_dataset AND e.key = content ->> 'key' AND e.kind IN ('spend', 'reserve'));
  so_far bigint := (SELECT (e.body::jsonb ->> 'count')::bigint FROM dpcli.entry e WHERE e.dataset = of_dataset AND e.key = content ->> 'key'
    AND e.kind = 'count' AND e.body::jsonb ->> 'of' = content ->> 'of' ORDER BY e.seq DESC LIMIT 1);
BEGIN
  PERFORM dpcli.require(EXISTS (SELECT FROM dpcli.entry e WHERE e.dataset = of_dataset AND e.key = content ->> 'key'
    AND e.kind IN ('spend', 'start', 'commit')), 'expected the key of a run that was started');
  IF made IS DISTINCT FROM session_user::text THEN
    RAISE EXCEPTION USING ERRCODE = 'DPL02', MESSAGE = format('that run is of %s: to count its answers is theirs', made);
  END IF;
  PERFORM dpcli.require((content ->> 'count')::bigint > coalesce(so_far, 0), 'expected a count that goes on');
END $$;


ALTER FUNCTION dpcli.check_count(of_dataset text, content jsonb) OWNER TO ledger_owner;

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
  -- A start is granted once: without it two who hold one reservation may both draw noise.
  IF content ->> 'kind' = 'commit' AND NOT 'start' = ANY (so_far) THEN
    PERFORM dpcli.require(dpcli.is_a('said', content -> 'why'), 'expected why, as the reservation was never started');
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
-- Name: check_moving(text, jsonb); Type: FUNCTION; Schema: dpcli; Owner: ledger_owner
--

CREATE FUNCTION dpcli.check_moving(of_dataset text, content jsonb) RETURNS void
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'dpcli', 'pg_temp'
    AS $$
DECLARE
  kind text := content ->> 'kind';
  away boolean := dpcli.moved_last(of_dataset) IS NOT DISTINCT FROM 'moved';
  copying boolean := EXISTS (SELECT FROM dpcli.copying c WHERE c.dataset = of_dataset);
BEGIN
  IF kind IN ('moved', 'copied') THEN
    PERFORM dpcli.permit_moving();
  END IF;
  IF kind = 'copied' THEN
    PERFORM dpcli.require(content -> 'version' = (SELECT to_jsonb(max(f.version)) FROM dpcli.format f), 'expected the version of these functions');
    PERFORM dpcli.require(copying AND away, 'expected a dataset that is being copied, and was closed where it comes from');
    DELETE FROM dpcli.copying c WHERE c.dataset = of_dataset;
    RETURN;
  END IF;
  PERFORM dpcli.require(NOT copying, 'the dataset is being copied here, and takes nothing before all of it is there');
  PERFORM dpcli.require(NOT away OR kind IN ('moved', 'upgrade'), 'the dataset has moved, and takes nothing more here');
  IF kind = 'moved' THEN
    PERFORM dpcli.require((content ? 'copy') = away, 'expected a dataset that moves once, and then arrives');
    PERFORM dpcli.require(NOT away OR (SELECT bool_and(NOT m.body::jsonb ? 'copy' AND m.body::jsonb -> 'to' = content -> 'to' AND m.hash <> content ->> 'copy') FROM dpcli.entry m
      WHERE m.dataset = of_dataset AND m.key IS NULL AND m.kind = 'moved' AND m.seq > coalesce((SELECT max(c.seq) FROM dpcli.entry c
        WHERE c.dataset = of_dataset AND c.key IS NULL AND c.kind = 'copied'), 0)), 'expected a dataset that has not arrived yet, and the place to which it moves');
  END IF;
END $$;


ALTER FUNCTION dpcli.check_moving(of_dataset text, content jsonb) OWNER TO ledger_owner;

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
  PERFORM dpcli.require(NOT terms ? 'ceiling' OR terms ->> 'mode' = 'adaptive'
    AND (terms ->> 'ceiling')::double precision >= (terms ->> 'epsilon')::double precision, 'expected a ceiling that is no lower than the cap, in adaptive mode');
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
  PERFORM dpcli.require(NOT EXISTS (SELECT FROM dpcli.dataset d WHERE d.name <> of_dataset AND lower(d.fingerprint) = lower(terms ->> 'fingerprint')),
    'expected new data, found the fingerprint of another dataset');
  INSERT INTO dpcli.dataset VALUES (of_dataset, of_team, content #>> '{terms,fingerprint}', 1, new_hash);
END $$;


ALTER FUNCTION dpcli.check_open(of_dataset text, content jsonb, new_hash text) OWNER TO ledger_owner;

--
-- Name: check_propose(text, jsonb); Type: FUNCTION; Schema: dpcli; Owner: ledger_owner
--

CREATE FUNCTION dpcli.check_propose(of_dataset text, content jsonb) RETURNS void
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'dpcli', 'pg_temp'
    AS $$
DECLARE
  latest text := to_char((clock_timestamp() + make_interval(days => (dpcli.rules() ->> 'open')::integer)) AT TIME ZONE 'UTC',
    'YYYY-MM-DD"T"HH24:MI:SS"Z"');
BEGIN
  PERFORM dpcli.require(((content ->> 'expires') COLLATE "C") > dpcli.now() AND ((content ->> 'expires') COLLATE "C") <= latest,
    format('expected a proposal for at most %s days', dpcli.rules() ->> 'open'));
  IF content #>> '{asks,kind}' = 'void' THEN
    PERFORM dpcli.check_move(of_dataset, content -> 'asks');
  ELSIF content #>> '{asks,kind}' = 'moved' THEN
    PERFORM dpcli.permit_moving();
  ELSE
    PERFORM dpcli.permit(content #>> '{asks,kind}');
    IF content #>> '{asks,kind}' = 'quota' THEN
      PERFORM dpcli.check_quota(of_dataset, content -> 'asks');
    ELSE
      PERFORM dpcli.check_amend(of_dataset, content -> 'asks');
    END IF;
  END IF;
END $$;


ALTER FUNCTION dpcli.check_propose(of_dataset text, content jsonb) OWNER TO ledger_owner;

--
-- Name: check_quota(text, jsonb); Type: FUNCTION; Schema: dpcli; Owner: ledger_owner
--

CREATE FUNCTION dpcli.check_quota(of_dataset text, content jsonb) RETURNS void
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'dpcli', 'pg_temp'
    AS $$
BEGIN
  PERFORM dpcli.require((SELECT e.body::jsonb #>> '{terms,mode}' FROM dpcli.entry e WHERE e.dataset = of_dataset AND e.seq = 1) = 'adaptive',
    'expected a ledger in adaptive mode');
  PERFORM dpcli.require(content ->> 'of' <> 'person' OR content -> 'members' = jsonb_build_array(content -> 'name'),
    'expected one member of a person''s quota');
END $$;


ALTER FUNCTION dpcli.check_quota(of_dataset text, content jsonb) OWNER TO ledger_owner;

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
-- Name: check_two(text, jsonb); Type: FUNCTION; Schema: dpcli; Owner: ledger_owner
--

CREATE FUNCTION dpcli.check_two(of_dataset text, content jsonb) RETURNS void
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'dpcli', 'pg_temp'
    AS $$
DECLARE
  proposed jsonb;
BEGIN
  IF NOT dpcli.takes_two(of_dataset) THEN
    PERFORM dpcli.require(content ->> 'kind' NOT IN ('propose', 'refuse') AND NOT content ?| ARRAY['proposal', 'approval'],
      'expected a ledger of two persons');
    RETURN;
  ELSIF content ->> 'kind' NOT IN ('amend', 'void', 'quota', 'moved', 'refuse') OR content ->> 'kind' = 'moved' AND content ? 'copy' THEN
    RETURN;
  END IF;
  PERFORM dpcli.require(content ? 'proposal', 'expected what another person proposed, as the ledger is one of two persons');
  proposed := (SELECT e.body::jsonb FROM dpcli.entry e
    WHERE e.dataset = of_dataset AND e.seq = (content ->> 'proposal')::bigint AND e.kind = 'propose');
  PERFORM dpcli.require(proposed IS NOT NULL AND dpcli.standing(of_dataset) -> 'proposals' ? (content ->> 'proposal'),
    'expected the number of a proposal that is open');
  IF content ->> 'kind' = 'refuse' THEN
    IF proposed ->> 'who' IS DISTINCT FROM session_user::text THEN
      PERFORM dpcli.permit('approve');
    END IF;
    RETURN;
  END IF;
  PERFORM dpcli.permit('approve');
  PERFORM dpcli.require(content ? 'approval', 'expected why it is approved');
  PERFORM dpcli.require(dpcli.looks(proposed ->> 'who') <> dpcli.looks(session_user::text),
    format('expected the approval of another person than %s, who proposed it', proposed ->> 'who'));
  PERFORM dpcli.require(((proposed ->> 'expires') COLLATE "C") > dpcli.now(), 'expected a proposal within its time');
  PERFORM dpcli.require(proposed -> 'asks' = (SELECT jsonb_object_agg(m.key, content -> m.key) FROM jsonb_object_keys(proposed -> 'asks') m (key)),
    'expected what was proposed');
  PERFORM dpcli.require(content ->> 'kind' <> 'amend' OR content ->> 'approver' = session_user, 'expected the approver who is logged in');
END $$;


ALTER FUNCTION dpcli.check_two(of_dataset text, content jsonb) OWNER TO ledger_owner;

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
  SELECT dpcli.above(dpcli.standing(of_dataset, blocks), more, blocks)
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
  IF of_type IN ('text', 'said', 'name', 'hash', 'stamp', 'delta', 'adjacency', 'mode', 'filter', 'by', 'holder', 'portion') THEN
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
      WHEN 'holder' THEN RETURN rules -> 'holders' ? plain;
      WHEN 'portion' THEN RETURN plain ~ (rules #>> '{patterns,portion}');
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
  ELSIF of_type IN ('window', 'people') THEN
    RETURN dpcli.is_window(value);
  ELSIF of_type = 'yes' THEN
    RETURN value = 'true'::jsonb;
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
    WHEN 'asks' THEN
      IF jsonb_typeof(value -> 'kind') IS DISTINCT FROM 'string' OR NOT rules -> 'asks' ? (value ->> 'kind') THEN
        RETURN false;
      END IF;
      RETURN dpcli.wrong_table(rules #> ARRAY['asks', value ->> 'kind'], value) IS NULL;
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
    LANGUAGE plpgsql IMMUTABLE
    SET search_path TO 'pg_catalog', 'dpcli', 'pg_temp'
    AS $$
BEGIN
  IF string ~ '[!-~]' THEN
    RETURN dpcli.is_text(string, longest);
  END IF;
  RETURN dpcli.is_text(string, longest) AND (string IS NULL OR EXISTS (
    SELECT FROM regexp_split_to_table(string, '') c WHERE c <> '' AND NOT EXISTS (
      SELECT FROM jsonb_array_elements(dpcli.rules() -> 'spaces') r WHERE ascii(c) BETWEEN (r ->> 0)::integer AND (r ->> 1)::integer)));
END $$;


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
    LANGUAGE plpgsql IMMUTABLE
    SET search_path TO 'pg_catalog', 'dpcli', 'pg_temp'
    AS $_$
BEGIN
  IF string ~ '^[ -~]*$' THEN
    RETURN length(string) <= longest;
  END IF;
  RETURN length(string) <= longest AND NOT EXISTS (
    SELECT FROM regexp_split_to_table(string, '') c, jsonb_array_elements(dpcli.rules() -> 'unseen') r
    WHERE ascii(c) BETWEEN (r ->> 0)::integer AND (r ->> 1)::integer);
END $_$;


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
-- Name: letters(); Type: FUNCTION; Schema: dpcli; Owner: ledger_owner
--

CREATE FUNCTION dpcli.letters() RETURNS jsonb
    LANGUAGE sql IMMUTABLE
    SET search_path TO 'pg_catalog', 'dpcli', 'pg_temp'
    AS $$
  SELECT '{"gone":[[127,159],[173,173],[768,831],[834,834],[838,879],[1155,1161],[1425,1469],[1471,1471],[1473,1474],[1476,1477],[1479,1479],[1536,1541],[1552,1562],[1564,1564],[1611,1631],[1648,1648],[1750,1757],[1759,1764],[1767,1768],[1770,1773],[1807,1807],[1809,1809],[1840,1866],[1958,1968],[2027,2035],[2045,2045],[2070,2073],[2075,2083],[2085,2087],[2089,2093],[2137,2139],[2192,2193],[2200,2207],[2250,2306],[2362,2362],[2364,2364],[2369,2376],[2381,2381],[2385,2391],[2402,2403],[2433,2433],[2492,2492],[2497,2500],[2509,2509],[2530,2531],[2558,2558],[2561,2562],[2620,2620],[2625,2626],[2631,2632],[2635,2637],[2641,2641],[2672,2673],[2677,2677],[2689,2690],[2748,2748],[2753,2757],[2759,2760],[2765,2765],[2786,2787],[2810,2815],[2817,2817],[2876,2876],[2879,2879],[2881,2884],[2893,2893],[2901,2902],[2914,2915],[2946,2946],[3008,3008],[3021,3021],[3072,3072],[3076,3076],[3132,3132],[3134,3136],[3142,3143],[3146,3149],[3157,3158],[3170,3171],[3201,3201],[3260,3260],[3263,3263],[3270,3270],[3276,3277],[3298,3299],[3328,3329],[3387,3388],[3393,3396],[3405,3405],[3426,3427],[3457,3457],[3530,3530],[3538,3540],[3542,3542],[3633,3633],[3636,3642],[3655,3662],[3761,3761],[3764,3772],[3784,3789],[3864,3865],[3893,3893],[3895,3895],[3897,3897],[3953,3954],[3956,3956],[3962,3966],[3968,3968],[3970,3972],[3974,3975],[3981,3986],[3988,3991],[3993,3996],[3998,4001],[4003,4006],[4008,4011],[4013,4024],[4026,4028],[4038,4038],[4141,4144],[4146,4151],[4153,4154],[4157,4158],[4184,4185],[4190,4192],[4209,4212],[4226,4226],[4229,4230],[4237,4237],[4253,4253],[4447,4448],[4957,4959],[5906,5908],[5938,5939],[5970,5971],[6002,6003],[6068,6069],[6071,6077],[6086,6086],[6089,6099],[6109,6109],[6155,6159],[6277,6278],[6313,6313],[6432,6434],[6439,6440],[6450,6450],[6457,6459],[6679,6680],[6683,6683],[6742,6742],[6744,6750],[6752,6752],[6754,6754],[6757,6764],[6771,6780],[6783,6783],[6832,6862],[6912,6915],[6964,6964],[6966,6970],[6972,6972],[6978,6978],[7019,7027],[7040,7041],[7074,7077],[7080,7081],[7083,7085],[7142,7142],[7144,7145],[7149,7149],[7151,7153],[7212,7219],[7222,7223],[7376,7378],[7380,7392],[7394,7400],[7405,7405],[7412,7412],[7416,7417],[7616,7679],[8203,8207],[8234,8238],[8288,8292],[8294,8303],[8400,8432],[10240,10240],[11503,11505],[11647,11647],[11744,11775],[12330,12333],[12441,12442],[42607,42610],[42612,42621],[42654,42655],[42736,42737],[43010,43010],[43014,43014],[43019,43019],[43045,43046],[43052,43052],[43204,43205],[43232,43249],[43263,43263],[43302,43309],[43335,43345],[43392,43394],[43443,43443],[43446,43449],[43452,43453],[43493,43493],[43561,43566],[43569,43570],[43573,43574],[43587,43587],[43596,43596],[43644,43644],[43696,43696],[43698,43700],[43703,43704],[43710,43711],[43713,43713],[43756,43757],[43766,43766],[44005,44005],[44008,44008],[44013,44013],[64286,64286],[65024,65039],[65056,65071],[65279,65279],[65529,65531],[66045,66045],[66272,66272],[66422,66426],[68097,68099],[68101,68102],[68108,68111],[68152,68154],[68159,68159],[68325,68326],[68900,68903],[69291,69292],[69446,69456],[69506,69509],[69633,69633],[69688,69702],[69744,69744],[69747,69748],[69759,69761],[69811,69814],[69817,69818],[69821,69821],[69826,69826],[69837,69837],[69888,69890],[69927,69931],[69933,69933],[69936,69940],[70003,70003],[70016,70017],[70070,70078],[70089,70092],[70095,70095],[70191,70193],[70196,70196],[70198,70199],[70206,70206],[70367,70367],[70371,70378],[70400,70401],[70459,70460],[70464,70464],[70502,70508],[70512,70516],[70712,70719],[70722,70724],[70726,70726],[70750,70750],[70835,70840],[70842,70842],[70847,70848],[70850,70851],[71090,71093],[71100,71101],[71103,71104],[71132,71133],[71219,71226],[71229,71229],[71231,71232],[71339,71339],[71341,71341],[71344,71349],[71351,71351],[71453,71455],[71458,71461],[71463,71467],[71727,71735],[71737,71738],[71995,71996],[71998,71998],[72003,72003],[72148,72151],[72154,72155],[72160,72160],[72193,72202],[72243,72248],[72251,72254],[72263,72263],[72273,72278],[72281,72283],[72330,72342],[72344,72345],[72752,72758],[72760,72765],[72767,72767],[72850,72871],[72874,72880],[72882,72883],[72885,72886],[73009,73014],[73018,73018],[73020,73021],[73023,73029],[73031,73031],[73104,73105],[73109,73109],[73111,73111],[73459,73460],[78896,78904],[92912,92916],[92976,92982],[94031,94031],[94095,94098],[94180,94180],[113821,113822],[113824,113827],[118528,118573],[118576,118598],[119129,119129],[119143,119145],[119155,119170],[119173,119179],[119210,119213],[119362,119364],[121344,121398],[121403,121452],[121461,121461],[121476,121476],[121499,121503],[121505,121519],[122880,122886],[122888,122904],[122907,122913],[122915,122916],[122918,122922],[123184,123190],[123566,123566],[123628,123631],[125136,125142],[125252,125258]],"letters":[[32,45],[48,111],[49,108],[65,97],[66,98],[67,99],[68,100],[69,101],[70,102],[71,103],[72,104],[73,108],[74,106],[75,107],[76,108],[77,109],[78,110],[79,111],[80,112],[81,113],[82,114],[83,115],[84,116],[85,117],[86,118],[87,119],[88,120],[89,121],[90,122],[95,45],[105,108],[124,108],[198,230],[208,240],[216,111],[222,254],[248,111],[272,100],[273,100],[294,104],[295,104],[305,108],[321,108],[322,108],[330,331],[338,339],[358,116],[359,116],[384,98],[385,98],[386,98],[387,98],[388,389],[390,596],[391,99],[392,99],[393,100],[394,100],[395,100],[396,100],[398,477],[399,601],[400,603],[401,102],[402,102],[403,103],[404,611],[406,108],[407,108],[408,107],[409,107],[410,108],[412,623],[413,110],[414,110],[415,629],[418,419],[420,112],[421,112],[422,114],[423,424],[425,643],[427,116],[428,116],[429,116],[430,116],[433,650],[434,118],[435,121],[436,121],[437,122],[438,122],[439,658],[440,441],[444,445],[484,103],[485,103],[502,405],[503,447],[540,541],[544,110],[545,100],[546,547],[548,122],[549,122],[564,108],[565,110],[566,116],[570,97],[571,99],[572,99],[573,108],[574,116],[575,115],[576,122],[577,578],[579,98],[580,649],[581,652],[582,101],[583,101],[584,106],[585,106],[586,113],[587,113],[588,114],[589,114],[590,121],[591,121],[593,97],[595,98],[597,99],[598,100],[599,100],[608,103],[609,103],[610,103],[614,104],[616,108],[617,108],[618,108],[619,108],[620,108],[621,108],[625,109],[626,110],[627,110],[628,110],[636,114],[637,114],[638,114],[640,114],[642,115],[648,116],[651,118],[655,121],[656,122],[657,122],[665,98],[667,103],[668,104],[669,106],[671,108],[672,113],[837,108],[880,881],[882,883],[886,887],[895,1011],[913,97],[914,98],[915,121],[916,948],[917,101],[918,122],[919,110],[920,952],[921,108],[922,107],[923,955],[924,117],[925,118],[926,958],[927,111],[928,960],[929,112],[931,111],[932,116],[933,117],[934,966],[935,120],[936,968],[937,119],[945,97],[946,98],[947,121],[949,101],[950,122],[951,110],[953,108],[954,107],[956,117],[957,118],[959,111],[961,112],[962,111],[963,111],[964,116],[965,117],[967,120],[969,119],[975,983],[984,985],[986,987],[988,989],[990,991],[992,993],[994,995],[996,997],[998,999],[1000,1001],[1002,1003],[1004,1005],[1006,1007],[1015,1016],[1018,1019],[1021,891],[1022,892],[1023,893],[1026,1106],[1028,1108],[1029,115],[1030,108],[1032,106],[1033,1113],[1034,1114],[1035,1115],[1039,1119],[1040,97],[1041,1073],[1042,98],[1043,114],[1044,1076],[1045,101],[1046,1078],[1047,1079],[1048,1080],[1050,107],[1051,1083],[1052,109],[1053,104],[1054,111],[1055,110],[1056,112],[1057,99],[1058,116],[1059,121],[1060,1092],[1061,120],[1062,1094],[1063,1095],[1064,1096],[1065,1097],[1066,1098],[1067,1099],[1068,1100],[1069,1101],[1070,1102],[1071,1103],[1072,97],[1074,98],[1075,114],[1077,101],[1082,107],[1084,109],[1085,104],[1086,111],[1087,110],[1088,112],[1089,99],[1090,116],[1091,121],[1093,120],[1109,115],[1110,108],[1112,106],[1120,1121],[1122,1123],[1124,1125],[1126,1127],[1128,1129],[1130,1131],[1132,1133],[1134,1135],[1136,1137],[1138,1139],[1140,118],[1141,118],[1144,1145],[1146,1147],[1148,1149],[1150,1151],[1152,1153],[1162,1163],[1164,1165],[1166,1167],[1168,1169],[1170,1171],[1172,1173],[1174,1175],[1176,1177],[1178,1179],[1180,1181],[1182,1183],[1184,1185],[1186,1187],[1188,1189],[1190,1191],[1192,1193],[1194,1195],[1196,1197],[1198,121],[1199,121],[1200,1201],[1202,1203],[1204,1205],[1206,1207],[1208,1209],[1210,104],[1211,104],[1212,1213],[1214,1215],[1216,108],[1219,1220],[1221,1222],[1223,1224],[1225,1226],[1227,1228],[1229,1230],[1231,108],[1236,1237],[1240,1241],[1248,1249],[1256,1257],[1270,1271],[1274,1275],[1276,1277],[1278,1279],[1280,100],[1281,100],[1282,1283],[1284,1285],[1286,1287],[1288,1289],[1290,1291],[1292,1293],[1294,1295],[1296,1297],[1298,1299],[1300,1301],[1302,1303],[1304,1305],[1306,113],[1307,113],[1308,119],[1309,119],[1310,1311],[1312,1313],[1314,1315],[1316,1317],[1318,1319],[1320,1321],[1322,1323],[1324,1325],[1326,1327],[1329,1377],[1330,1378],[1331,1379],[1332,1380],[1333,1381],[1334,113],[1335,1383],[1336,1384],[1337,1385],[1338,1386],[1339,1387],[1340,1388],[1341,1389],[1342,1390],[1343,1391],[1344,104],[1345,1393],[1346,1394],[1347,1395],[1348,1396],[1349,1397],[1350,1398],[1351,1399],[1352,110],[1353,1401],[1354,1402],[1355,1403],[1356,1404],[1357,117],[1358,1406],[1359,1407],[1360,1408],[1361,103],[1362,1410],[1363,1411],[1364,102],[1365,111],[1366,1414],[1382,113],[1392,104],[1400,110],[1405,117],[1409,103],[1412,102],[1413,111],[4256,11520],[4257,11521],[4258,11522],[4259,11523],[4260,11524],[4261,11525],[4262,11526],[4263,11527],[4264,11528],[4265,11529],[4266,11530],[4267,11531],[4268,11532],[4269,11533],[4270,11534],[4271,11535],[4272,11536],[4273,11537],[4274,11538],[4275,11539],[4276,11540],[4277,11541],[4278,11542],[4279,11543],[4280,11544],[4281,11545],[4282,11546],[4283,11547],[4284,11548],[4285,11549],[4286,11550],[4287,11551],[4288,11552],[4289,11553],[4290,11554],[4291,11555],[4292,11556],[4293,11557],[4295,11559],[4301,11565],[5112,5104],[5113,5105],[5114,5106],[5115,5107],[5116,5108],[5117,5109],[7296,98],[7297,1076],[7298,111],[7299,99],[7300,116],[7301,116],[7302,1098],[7303,1123],[7304,42571],[7312,4304],[7313,4305],[7314,4306],[7315,4307],[7316,4308],[7317,4309],[7318,4310],[7319,4311],[7320,4312],[7321,4313],[7322,4314],[7323,4315],[7324,4316],[7325,4317],[7326,4318],[7327,4319],[7328,4320],[7329,4321],[7330,4322],[7331,4323],[7332,4324],[7333,4325],[7334,4326],[7335,4327],[7336,4328],[7337,4329],[7338,4330],[7339,4331],[7340,4332],[7341,4333],[7342,4334],[7343,4335],[7344,4336],[7345,4337],[7346,4338],[7347,4339],[7348,4340],[7349,4341],[7350,4342],[7351,4343],[7352,4344],[7353,4345],[7354,4346],[7357,4349],[7358,4350],[7359,4351],[7424,97],[7428,99],[7429,100],[7431,101],[7434,106],[7435,107],[7436,108],[7437,109],[7439,111],[7448,112],[7451,116],[7452,117],[7456,118],[7457,119],[7458,122],[7532,98],[7533,100],[7534,102],[7535,109],[7536,110],[7537,112],[7538,114],[7539,114],[7540,115],[7541,116],[7542,122],[7545,103],[7549,112],[7552,98],[7553,100],[7554,102],[7555,103],[7556,107],[7557,108],[7558,109],[7559,110],[7560,112],[7561,114],[7562,115],[7564,118],[7565,120],[7566,122],[7567,97],[7569,100],[7570,101],[7574,108],[7577,117],[7836,115],[7837,115],[7930,7931],[7932,7933],[7934,121],[7935,121],[8208,45],[8210,45],[8211,45],[8212,45],[8498,8526],[8579,8580],[8722,45],[11264,11312],[11265,11313],[11266,11314],[11267,11315],[11268,11316],[11269,11317],[11270,11318],[11271,11319],[11272,11320],[11273,11321],[11274,11322],[11275,11323],[11276,11324],[11277,11325],[11278,11326],[11279,11327],[11280,11328],[11281,11329],[11282,11330],[11283,11331],[11284,11332],[11285,11333],[11286,11334],[11287,11335],[11288,11336],[11289,11337],[11290,11338],[11291,11339],[11292,11340],[11293,11341],[11294,11342],[11295,11343],[11296,11344],[11297,11345],[11298,11346],[11299,11347],[11300,11348],[11301,11349],[11302,11350],[11303,11351],[11304,11352],[11305,11353],[11306,11354],[11307,11355],[11308,11356],[11309,11357],[11310,11358],[11311,11359],[11360,108],[11361,108],[11362,108],[11363,112],[11364,114],[11365,97],[11366,116],[11367,104],[11368,104],[11369,107],[11370,107],[11371,122],[11372,122],[11373,97],[11374,109],[11375,592],[11376,594],[11377,118],[11378,119],[11379,119],[11380,118],[11381,11382],[11384,101],[11386,111],[11390,115],[11391,122],[11392,11393],[11394,11395],[11396,11397],[11398,11399],[11400,11401],[11402,11403],[11404,11405],[11406,11407],[11408,11409],[11410,11411],[11412,11413],[11414,11415],[11416,11417],[11418,11419],[11420,11421],[11422,11423],[11424,11425],[11426,11427],[11428,11429],[11430,11431],[11432,11433],[11434,11435],[11436,11437],[11438,11439],[11440,11441],[11442,11443],[11444,11445],[11446,11447],[11448,11449],[11450,11451],[11452,11453],[11454,11455],[11456,11457],[11458,11459],[11460,11461],[11462,11463],[11464,11465],[11466,11467],[11468,11469],[11470,11471],[11472,11473],[11474,11475],[11476,11477],[11478,11479],[11480,11481],[11482,11483],[11484,11485],[11486,11487],[11488,11489],[11490,11491],[11499,11500],[11501,11502],[11506,11507],[42560,42561],[42562,42563],[42564,42565],[42566,42567],[42568,42569],[42570,42571],[42572,42573],[42574,42575],[42576,42577],[42578,42579],[42580,42581],[42582,42583],[42584,42585],[42586,42587],[42588,42589],[42590,42591],[42592,42593],[42594,42595],[42596,42597],[42598,42599],[42600,42601],[42602,42603],[42604,42605],[42624,42625],[42626,42627],[42628,42629],[42630,42631],[42632,42633],[42634,42635],[42636,42637],[42638,42639],[42640,42641],[42642,42643],[42644,42645],[42646,42647],[42648,42649],[42650,42651],[42786,42787],[42788,42789],[42790,42791],[42792,42793],[42794,42795],[42796,42797],[42798,42799],[42800,102],[42801,115],[42802,42803],[42804,42805],[42806,42807],[42808,42809],[42810,42811],[42812,42813],[42814,42815],[42816,107],[42817,107],[42818,107],[42819,107],[42820,107],[42821,107],[42822,42823],[42824,108],[42825,108],[42826,111],[42827,111],[42828,111],[42829,111],[42830,42831],[42832,112],[42833,112],[42834,112],[42835,112],[42836,112],[42837,112],[42838,113],[42839,113],[42840,113],[42841,113],[42842,42843],[42844,42845],[42846,118],[42847,118],[42848,42849],[42850,42851],[42852,42853],[42854,42855],[42856,42857],[42858,42859],[42860,42861],[42862,42863],[42873,100],[42874,100],[42875,102],[42876,102],[42877,103],[42878,42879],[42880,42881],[42882,114],[42883,114],[42884,115],[42885,115],[42886,116],[42887,116],[42891,42892],[42893,613],[42894,108],[42896,110],[42897,110],[42898,99],[42899,99],[42900,99],[42901,104],[42902,98],[42903,98],[42904,102],[42905,102],[42906,42907],[42908,42909],[42910,42911],[42912,103],[42913,103],[42914,107],[42915,107],[42916,110],[42917,110],[42918,114],[42919,114],[42920,115],[42921,115],[42922,104],[42923,604],[42924,103],[42925,108],[42926,108],[42927,113],[42928,670],[42929,647],[42930,106],[42931,43859],[42932,42933],[42934,42935],[42936,117],[42937,117],[42938,42939],[42940,42941],[42942,42943],[42944,42945],[42946,42947],[42948,99],[42949,115],[42950,122],[42951,100],[42952,100],[42953,115],[42954,115],[42960,42961],[42966,42967],[42968,42969],[42997,42998],[43828,101],[43830,103],[43831,108],[43832,108],[43833,108],[43834,109],[43835,110],[43846,114],[43849,114],[43851,114],[43852,114],[43854,117],[43858,117],[43862,120],[43863,120],[43864,120],[43865,120],[43866,121],[43888,5024],[43889,5025],[43890,5026],[43891,5027],[43892,5028],[43893,5029],[43894,5030],[43895,5031],[43896,5032],[43897,5033],[43898,5034],[43899,5035],[43900,5036],[43901,5037],[43902,5038],[43903,5039],[43904,5040],[43905,5041],[43906,5042],[43907,5043],[43908,5044],[43909,5045],[43910,5046],[43911,5047],[43912,5048],[43913,5049],[43914,5050],[43915,5051],[43916,5052],[43917,5053],[43918,5054],[43919,5055],[43920,5056],[43921,5057],[43922,5058],[43923,5059],[43924,5060],[43925,5061],[43926,5062],[43927,5063],[43928,5064],[43929,5065],[43930,5066],[43931,5067],[43932,5068],[43933,5069],[43934,5070],[43935,5071],[43936,5072],[43937,5073],[43938,5074],[43939,5075],[43940,5076],[43941,5077],[43942,5078],[43943,5079],[43944,5080],[43945,5081],[43946,5082],[43947,5083],[43948,5084],[43949,5085],[43950,5086],[43951,5087],[43952,5088],[43953,5089],[43954,5090],[43955,5091],[43956,5092],[43957,5093],[43958,5094],[43959,5095],[43960,5096],[43961,5097],[43962,5098],[43963,5099],[43964,5100],[43965,5101],[43966,5102],[43967,5103],[66560,66600],[66561,66601],[66562,66602],[66563,66603],[66564,66604],[66565,66605],[66566,66606],[66567,66607],[66568,66608],[66569,66609],[66570,66610],[66571,66611],[66572,66612],[66573,66613],[66574,66614],[66575,66615],[66576,66616],[66577,66617],[66578,66618],[66579,66619],[66580,66620],[66581,66621],[66582,66622],[66583,66623],[66584,66624],[66585,66625],[66586,66626],[66587,66627],[66588,66628],[66589,66629],[66590,66630],[66591,66631],[66592,66632],[66593,66633],[66594,66634],[66595,66635],[66596,66636],[66597,66637],[66598,66638],[66599,66639],[66736,66776],[66737,66777],[66738,66778],[66739,66779],[66740,66780],[66741,66781],[66742,66782],[66743,66783],[66744,66784],[66745,66785],[66746,66786],[66747,66787],[66748,66788],[66749,66789],[66750,66790],[66751,66791],[66752,66792],[66753,66793],[66754,66794],[66755,66795],[66756,66796],[66757,66797],[66758,66798],[66759,66799],[66760,66800],[66761,66801],[66762,66802],[66763,66803],[66764,66804],[66765,66805],[66766,66806],[66767,66807],[66768,66808],[66769,66809],[66770,66810],[66771,66811],[66928,66967],[66929,66968],[66930,66969],[66931,66970],[66932,66971],[66933,66972],[66934,66973],[66935,66974],[66936,66975],[66937,66976],[66938,66977],[66940,66979],[66941,66980],[66942,66981],[66943,66982],[66944,66983],[66945,66984],[66946,66985],[66947,66986],[66948,66987],[66949,66988],[66950,66989],[66951,66990],[66952,66991],[66953,66992],[66954,66993],[66956,66995],[66957,66996],[66958,66997],[66959,66998],[66960,66999],[66961,67000],[66962,67001],[66964,67003],[66965,67004],[68736,68800],[68737,68801],[68738,68802],[68739,68803],[68740,68804],[68741,68805],[68742,68806],[68743,68807],[68744,68808],[68745,68809],[68746,68810],[68747,68811],[68748,68812],[68749,68813],[68750,68814],[68751,68815],[68752,68816],[68753,68817],[68754,68818],[68755,68819],[68756,68820],[68757,68821],[68758,68822],[68759,68823],[68760,68824],[68761,68825],[68762,68826],[68763,68827],[68764,68828],[68765,68829],[68766,68830],[68767,68831],[68768,68832],[68769,68833],[68770,68834],[68771,68835],[68772,68836],[68773,68837],[68774,68838],[68775,68839],[68776,68840],[68777,68841],[68778,68842],[68779,68843],[68780,68844],[68781,68845],[68782,68846],[68783,68847],[68784,68848],[68785,68849],[68786,68850],[71840,71872],[71841,71873],[71842,71874],[71843,71875],[71844,71876],[71845,71877],[71846,71878],[71847,71879],[71848,71880],[71849,71881],[71850,71882],[71851,71883],[71852,71884],[71853,71885],[71854,71886],[71855,71887],[71856,71888],[71857,71889],[71858,71890],[71859,71891],[71860,71892],[71861,71893],[71862,71894],[71863,71895],[71864,71896],[71865,71897],[71866,71898],[71867,71899],[71868,71900],[71869,71901],[71870,71902],[71871,71903],[93760,93792],[93761,93793],[93762,93794],[93763,93795],[93764,93796],[93765,93797],[93766,93798],[93767,93799],[93768,93800],[93769,93801],[93770,93802],[93771,93803],[93772,93804],[93773,93805],[93774,93806],[93775,93807],[93776,93808],[93777,93809],[93778,93810],[93779,93811],[93780,93812],[93781,93813],[93782,93814],[93783,93815],[93784,93816],[93785,93817],[93786,93818],[93787,93819],[93788,93820],[93789,93821],[93790,93822],[93791,93823],[122628,108],[122633,116],[122641,108],[122643,108],[122646,114],[122650,108],[122651,111],[122653,99],[122654,115],[125184,125218],[125185,125219],[125186,125220],[125187,125221],[125188,125222],[125189,125223],[125190,125224],[125191,125225],[125192,125226],[125193,125227],[125194,125228],[125195,125229],[125196,125230],[125197,125231],[125198,125232],[125199,125233],[125200,125234],[125201,125235],[125202,125236],[125203,125237],[125204,125238],[125205,125239],[125206,125240],[125207,125241],[125208,125242],[125209,125243],[125210,125244],[125211,125245],[125212,125246],[125213,125247],[125214,125248],[125215,125249],[125216,125250],[125217,125251]]}'::jsonb
$$;


ALTER FUNCTION dpcli.letters() OWNER TO ledger_owner;

--
-- Name: looks(text); Type: FUNCTION; Schema: dpcli; Owner: ledger_owner
--

CREATE FUNCTION dpcli.looks(name text) RETURNS text
    LANGUAGE plpgsql IMMUTABLE
    SET search_path TO 'pg_catalog', 'dpcli', 'pg_temp'
    AS $$
DECLARE
  tables jsonb := dpcli.letters();
  before text := (SELECT string_agg(chr((m ->> 0)::integer), '' ORDER BY i) FROM jsonb_array_elements(tables -> 'letters') WITH ORDINALITY AS pair (m, i));
  after text := (SELECT string_agg(chr((m ->> 1)::integer), '' ORDER BY i) FROM jsonb_array_elements(tables -> 'letters') WITH ORDINALITY AS pair (m, i));
  found text := '';
BEGIN
  SELECT coalesce(string_agg(CASE WHEN EXISTS (SELECT FROM jsonb_array_elements(dpcli.rules() -> 'spaces') r
      WHERE ascii(c) BETWEEN (r ->> 0)::integer AND (r ->> 1)::integer) THEN ' ' ELSE c END, '' ORDER BY i), '') INTO found
  FROM regexp_split_to_table(lower(normalize(name, NFKD)), '') WITH ORDINALITY AS piece (c, i)
  WHERE c <> '' AND NOT EXISTS (SELECT FROM jsonb_array_elements((tables -> 'gone') || (dpcli.rules() -> 'unseen')) r
    WHERE ascii(c) BETWEEN (r ->> 0)::integer AND (r ->> 1)::integer);
  found := replace(replace(btrim(regexp_replace(found, ' +', ' ', 'g')), chr(223), 'ss'), chr(7838), 'ss');
  FOR i IN 1..3 LOOP
    found := translate(found, before, after);
  END LOOP;
  RETURN replace(replace(found, 'rn', 'm'), 'vv', 'w');
END $$;


ALTER FUNCTION dpcli.looks(name text) OWNER TO ledger_owner;

--
-- Name: moved_last(text); Type: FUNCTION; Schema: dpcli; Owner: ledger_owner
--

CREATE FUNCTION dpcli.moved_last(of_dataset text) RETURNS text
    LANGUAGE sql STABLE
    SET search_path TO 'pg_catalog', 'dpcli', 'pg_temp'
    AS $$
  SELECT e.kind FROM dpcli.entry e WHERE e.dataset = of_dataset AND e.key IS NULL AND e.kind IN ('moved', 'copied') ORDER BY e.seq DESC LIMIT 1
$$;


ALTER FUNCTION dpcli.moved_last(of_dataset text) OWNER TO ledger_owner;

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
-- Name: note(text, bigint, boolean); Type: FUNCTION; Schema: dpcli; Owner: ledger_owner
--

CREATE FUNCTION dpcli.note(of_dataset text, new_seq bigint, at_once boolean) RETURNS void
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'dpcli', 'pg_temp'
    AS $$
DECLARE
  said text;
BEGIN
  IF (at_once OR new_seq - coalesce((SELECT c.seq FROM dpcli.checkpoint c WHERE c.dataset = of_dataset), 0) >= dpcli.every())
    AND dpcli.moved_last(of_dataset) IS DISTINCT FROM 'moved'
  THEN
    said := dpcli.standing(of_dataset)::text;
    INSERT INTO dpcli.checkpoint VALUES (of_dataset, new_seq, said, encode(sha256(convert_to(said, 'UTF8')), 'hex'))
      ON CONFLICT (dataset) DO UPDATE SET seq = excluded.seq, body = excluded.body, digest = excluded.digest;
  END IF;
END $$;


ALTER FUNCTION dpcli.note(of_dataset text, new_seq bigint, at_once boolean) OWNER TO ledger_owner;

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
  WHERE k.said @> jsonb_build_object('dataset', of_dataset) AND k.said -> 'checkpoint' IN ('1'::jsonb, '2'::jsonb) AND jsonb_typeof(k.said -> 'seq') = 'number'
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
-- Name: over_quota(text, jsonb, text, jsonb, jsonb); Type: FUNCTION; Schema: dpcli; Owner: ledger_owner
--

CREATE FUNCTION dpcli.over_quota(of_dataset text, found jsonb, of_payer text, more jsonb, blocks jsonb) RETURNS text
    LANGUAGE sql STABLE
    SET search_path TO 'pg_catalog', 'dpcli', 'pg_temp'
    AS $$
  WITH quota AS MATERIALIZED (
    SELECT e.seq, e.body::jsonb ->> 'name' AS name, e.body::jsonb -> 'members' AS members, (e.body::jsonb ->> 'share')::numeric AS share
    FROM jsonb_object_keys(coalesce(found -> 'quotas', '{}'::jsonb)) q (seq)
      JOIN dpcli.entry e ON e.dataset = of_dataset AND e.seq = q.seq::bigint WHERE e.body::jsonb -> 'members' ? of_payer
  ), wanted AS (
    SELECT m.name, m.base, dpcli.amount(more ->> m.base) AS cost FROM dpcli.spread(more, blocks) m
    UNION ALL SELECT m.name, m.base, 0 FROM dpcli.spread(found -> 'caps', blocks) m
  ), part AS (
    SELECT q.seq, w.name, w.base, w.cost FROM quota q, wanted w
    UNION ALL
    SELECT q.seq, b.name, b.base, m.value::numeric
    FROM quota q, jsonb_array_elements_text(q.members) p (payer), jsonb_each_text(found -> 'people' -> p.payer) m
      JOIN (SELECT DISTINCT wanted.name, wanted.base FROM wanted) b ON b.name = m.key
  )
  SELECT format('over the quota of %s (%s of the cap, entry %s) on %s', q.name, q.share, q.seq, part.base)
  FROM part JOIN quota q ON q.seq = part.seq
  GROUP BY q.name, q.share, q.seq, part.name, part.base
  HAVING (sum(part.cost) <= q.share * (found -> 'caps' ->> part.base)::numeric) IS NOT TRUE ORDER BY q.seq, part.name LIMIT 1
$$;


ALTER FUNCTION dpcli.over_quota(of_dataset text, found jsonb, of_payer text, more jsonb, blocks jsonb) OWNER TO ledger_owner;

--
-- Name: paid_up_to(text, bigint); Type: FUNCTION; Schema: dpcli; Owner: ledger_owner
--

CREATE FUNCTION dpcli.paid_up_to(of_dataset text, last_seq bigint) RETURNS TABLE(payer text, name text, amount numeric)
    LANGUAGE sql STABLE
    SET search_path TO 'pg_catalog', 'dpcli', 'pg_temp'
    AS $$
  SELECT coalesce(r.body::jsonb ->> 'who', ''), m.name, CASE WHEN v.seq IS NULL THEN m.amount ELSE 0 END
  FROM dpcli.entry r LEFT JOIN dpcli.entry v ON v.dataset = of_dataset AND v.key = r.key AND v.kind = 'void' AND v.seq <= last_seq,
    dpcli.spread(r.cost, r.body::jsonb -> 'window') m
  WHERE r.dataset = of_dataset AND r.seq <= last_seq AND r.kind IN ('spend', 'reserve')
$$;


ALTER FUNCTION dpcli.paid_up_to(of_dataset text, last_seq bigint) OWNER TO ledger_owner;

--
-- Name: permit(text); Type: FUNCTION; Schema: dpcli; Owner: ledger_owner
--

CREATE FUNCTION dpcli.permit(of_kind text) RETURNS void
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'dpcli', 'pg_temp'
    AS $$
DECLARE
  needed name := CASE WHEN of_kind IN ('open', 'amend', 'retire', 'upgrade', 'approve', 'quota') THEN 'dpcli_admin' ELSE 'dpcli_spender' END;
BEGIN
  IF pg_has_role(session_user, needed, 'MEMBER') IS NOT TRUE THEN
    RAISE EXCEPTION USING ERRCODE = 'DPL02', MESSAGE = format('%s needs the role %s, which %s has not', of_kind, needed, session_user);
  END IF;
END $$;


ALTER FUNCTION dpcli.permit(of_kind text) OWNER TO ledger_owner;

--
-- Name: permit_moving(); Type: FUNCTION; Schema: dpcli; Owner: ledger_owner
--

CREATE FUNCTION dpcli.permit_moving() RETURNS void
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'dpcli', 'pg_temp'
    AS $$
BEGIN
  IF pg_has_role(session_user, 'dpcli_admin', 'MEMBER') IS NOT TRUE THEN
    RAISE EXCEPTION USING ERRCODE = 'DPL02', MESSAGE = format('moving a dataset needs the role dpcli_admin, which %s has not', session_user);
  END IF;
END $$;


ALTER FUNCTION dpcli.permit_moving() OWNER TO ledger_owner;

--
-- Name: quoted(text); Type: FUNCTION; Schema: dpcli; Owner: ledger_owner
--

CREATE FUNCTION dpcli.quoted(string text) RETURNS text
    LANGUAGE plpgsql IMMUTABLE
    SET search_path TO 'pg_catalog', 'dpcli', 'pg_temp'
    AS $_$
BEGIN
  IF string ~ '^[ -~]*$' THEN
    RETURN to_json(string)::text;
  END IF;
  RETURN (SELECT '"' || string_agg(CASE
      WHEN c IN ('"', chr(92)) THEN chr(92) || c
      WHEN ascii(c) BETWEEN 32 AND 126 THEN c
      WHEN ascii(c) IN (8, 9, 10, 12, 13) THEN chr(92) || substr('btn fr', ascii(c) - 7, 1)
      WHEN ascii(c) < 65536 THEN chr(92) || 'u' || lpad(to_hex(ascii(c)), 4, '0')
      ELSE chr(92) || 'u' || to_hex(55296 + ((ascii(c) - 65536) >> 10)) || chr(92) || 'u' || to_hex(56320 + ((ascii(c) - 65536) & 1023))
    END, '' ORDER BY i) || '"' FROM regexp_split_to_table(string, '') WITH ORDINALITY AS piece (c, i));
END $_$;


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
  SELECT '{"adjacencies":["add-remove","replace-one","zero-out"],"asks":{"amend":{"caps":"amounts","epsilon":"positive","kind":"name","why":"said"},"moved":{"kind":"name","to":"said","why":"said"},"quota":{"alert_at":"portion","kind":"name","members":"people","name":"name","of":"holder","share":"portion","why":"said"},"void":{"key":"name","kind":"name","why":"said"}},"blocks":{"by":"by","column":"name","count":"runs?","max_blocks":"runs","names":"window?"},"certified":{"accountant":"name","epsilon":"bound"},"common":{"dataset":"name","dpcli":"text","kind":"name","ledger":"count","previous":"hash","seq":"count","when":"stamp","who":"name"},"declared":{"pipeline":"pipeline","runs":"runs"},"entries":{"amend":{"approval":"said?","approver":"said","caps":"amounts","epsilon":"positive","proposal":"count?","unseen":"yes?","why":"said"},"commit":{"key":"name","why":"text?"},"copied":{"from":"said","schema":"hash","version":"count","why":"text?"},"count":{"count":"count","key":"name","of":"name"},"moved":{"approval":"said?","copy":"hash?","proposal":"count?","to":"said","why":"text?"},"open":{"caps":"amounts","terms":"terms"},"propose":{"asks":"asks","expires":"stamp"},"quota":{"alert_at":"portion","approval":"said?","members":"people","name":"name","of":"holder","proposal":"count?","share":"portion","why":"said"},"refuse":{"proposal":"count","why":"said"},"reserve":{"cost":"amounts","delta":"delta","detail":"text?","expires":"stamp?","key":"name","made":"stamp?","maker":"name?","pipeline":"pipeline","why":"text?","window":"window?"},"retire":{"why":"said","window":"window"},"spend":{"cost":"amounts","delta":"delta","detail":"text?","key":"name","made":"stamp?","maker":"name?","pipeline":"pipeline","why":"text?","window":"window?"},"start":{"key":"name","why":"text?"},"upgrade":{"schema":"hash","version":"count"},"void":{"approval":"said?","key":"name","proposal":"count?","why":"said"}},"filters":{"advanced":{"currency":["half_squares","delta"],"groups":false,"ranges":{"slack":[5e-324,0.9999999999999999]}},"approx-dp":{"currency":["epsilon","delta"],"groups":true,"ranges":{}},"gdp":{"currency":["mu_squared"],"groups":true,"ranges":{}},"rdp":{"currency":["rdp"],"groups":false,"ranges":{"order":[1.000001,1000000.0]}},"zcdp":{"currency":["rho"],"groups":true,"ranges":{}}},"holders":["person","team"],"kinds":{"day":"","hash":"count","region":"names","week":""},"longest":20000,"modes":["adaptive","declared"],"name":200,"open":31,"patterns":{"amount":"^[0-9]{1,40}([.][0-9]{1,40})?(E[+-]?[0-9]{1,3})?$","hash":"^[0-9a-f]{64}$","portion":"^(0|1|0[.][0-9]{1,6})$","stamp":"^[0-9]{4}-[0-9]{2}-[0-9]{2}T([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]Z$"},"spaces":[[32,32],[160,160],[5760,5760],[8192,8202],[8239,8239],[8287,8287],[12288,12288]],"terms":{"adjacency":"adjacency","blocks":"blocks?","ceiling":"positive?","certified":"certified?","dataset_size":"count?","declared":"declared?","delta":"share","epsilon":"positive","filter":"filter?","fingerprint":"name?","mode":"mode","parameters":"parameters?","schema":"hash","team":"name?","two_person":"yes?","unit":"name","version":"count?"},"unseen":[[0,31],[127,159],[173,173],[847,847],[1536,1541],[1564,1564],[1757,1757],[1807,1807],[4447,4448],[6068,6069],[6155,6159],[8203,8207],[8232,8238],[8288,8303],[12644,12644],[55296,63743],[65024,65039],[65279,65279],[65440,65440],[65520,65531],[65534,65535],[69821,69821],[113824,113827],[119155,119162],[917504,1114111]],"window":2000,"words":{"adjacency":"a known adjacency","amounts":"decimal numbers >= 0 of at most 20 digits, by name","asks":"what may be proposed","blocks":"what the blocks of a dataset are","bound":"a number >= 0","by":"a known kind of blocks","certified":"an epsilon and an accountant","count":"a whole number > 0","declared":"pipelines and how often each is run","delta":"the shortest spelling of a number in [0, 1)","filter":"a known filter","hash":"64 hexadecimal digits","holder":"person or team","mode":"a known mode","name":"at most 200 visible characters","parameters":"numbers by name","people":"1 to 2000 names, each once and in order","pipeline":"the privacy and the mechanisms of a pipeline","portion":"a decimal from 0 to 1 with at most 6 digits after the point","positive":"a number > 0","runs":"a whole number from 1 to 1000000","said":"a reason in visible characters","share":"a number in [0, 1)","stamp":"a time as 2030-12-31T23:59:59Z","terms":"the terms of a ledger","text":"at most 20000 visible characters","window":"1 to 2000 names of blocks, each once and in order","yes":"true, or nothing at all"}}'::jsonb
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
-- Name: standing(text, jsonb); Type: FUNCTION; Schema: dpcli; Owner: ledger_owner
--

CREATE FUNCTION dpcli.standing(of_dataset text, in_window jsonb DEFAULT NULL::jsonb) RETURNS jsonb
    LANGUAGE plpgsql STABLE
    SET search_path TO 'pg_catalog', 'dpcli', 'pg_temp'
    AS $$
DECLARE
  noted jsonb := dpcli.noted(of_dataset);
  first jsonb := (SELECT e.body::jsonb FROM dpcli.entry e WHERE e.dataset = of_dataset AND e.seq = 1);
  two boolean := coalesce(first #> '{terms,two_person}' = 'true'::jsonb, false);
  at_opening jsonb := coalesce(first #> '{terms,ceiling}', first #> '{terms,epsilon}');
  base bigint;
  wanted jsonb := (SELECT jsonb_object_agg(b.block, true) FROM jsonb_array_elements_text(in_window) b (block));
BEGIN
  IF noted IS NULL THEN
    noted := jsonb_build_object('checkpoint', 1, 'dataset', of_dataset, 'seq', 1, 'charges', 0, 'last', NULL, 'under_way', '{}'::jsonb,
      'opening', (SELECT e.hash FROM dpcli.entry e WHERE e.dataset = of_dataset AND e.seq = 1), 'caps', first -> 'caps',
      'epsilon', first #> '{terms,epsilon}', 'largest', at_opening, 'schema', first #> '{terms,schema}',
      'version', coalesce(first #> '{terms,version}', '1'::jsonb), 'latest', first -> 'when',
      'spent', (SELECT jsonb_object_agg(m.key, '0') FROM jsonb_each(first -> 'caps') m),
      'reserved', (SELECT jsonb_object_agg(m.key, '0') FROM jsonb_each(first -> 'caps') m))
      || CASE WHEN first #> '{terms,blocks}' IS NULL THEN '{}'::jsonb
        ELSE jsonb_build_object('spent', '{}'::jsonb, 'reserved', '{}'::jsonb, 'retired', '[]'::jsonb) END
      || CASE WHEN two THEN jsonb_build_object('proposals', '{}'::jsonb) ELSE '{}'::jsonb END;
  END IF;
  IF wanted IS NOT NULL THEN
    noted := noted || jsonb_build_object('spent', dpcli.sums_on(noted -> 'spent', noted -> 'caps', in_window),
      'reserved', dpcli.sums_on(noted -> 'reserved', noted -> 'caps', in_window), 'retired',
      (SELECT coalesce(jsonb_agg(b.block), '[]'::jsonb) FROM jsonb_array_elements_text(noted -> 'retired') b (block) WHERE wanted ? b.block));
  END IF;
  base := (noted ->> 'seq')::bigint;
  RETURN (
    WITH since AS MATERIALIZED (
      SELECT e.seq, e.hash, e.kind, e.key, e.cost,
        CASE WHEN e.kind IN ('amend', 'upgrade', 'copied', 'propose', 'refuse') THEN e.content END AS content,
        CASE WHEN e.kind NOT IN ('spend', 'reserve') THEN dpcli.subject(e.content) END AS subject, coalesce(e.content ->> 'who', '') AS payer, e.content ->> 'when' AS stamp,
        CASE WHEN wanted IS NULL THEN e.content -> 'window'
        ELSE (SELECT jsonb_agg(b.block) FROM jsonb_array_elements_text(e.content -> 'window') b (block) WHERE wanted ? b.block) END AS blocks
      FROM (SELECT r.*, r.body::jsonb AS content FROM dpcli.entry r WHERE r.dataset = of_dataset AND r.seq > base OFFSET 0) e
    ), ended AS MATERIALIZED (
      SELECT s.kind, s.key, r.cost, coalesce(r.body::jsonb ->> 'who', '') AS payer, CASE WHEN wanted IS NULL THEN r.body::jsonb -> 'window'
        ELSE (SELECT jsonb_agg(b.block) FROM jsonb_array_elements_text(r.body::jsonb -> 'window') b (block) WHERE wanted ? b.block) END AS blocks
      FROM since s JOIN dpcli.entry r ON r.dataset = of_dataset AND r.key = s.key AND r.kind = 'reserve'
      WHERE s.kind IN ('commit', 'void')
    ), part AS (
      SELECT m.key AS name, m.value::numeric AS spent, 0::numeric AS reserved FROM jsonb_each_text(noted -> 'spent') m
      UNION ALL SELECT m.key, 0, m.value::numeric FROM jsonb_each_text(noted -> 'reserved') m
      UNION ALL SELECT m.name, m.amount, CASE WHEN s.kind = 'reserve' THEN m.amount ELSE 0 END
        FROM since s, dpcli.spread(s.cost, s.blocks) m WHERE s.kind IN ('spend', 'reserve') AND (wanted IS NULL OR s.blocks IS NOT NULL)
      UNION ALL SELECT m.name, CASE WHEN e.kind = 'void' THEN - m.amount ELSE 0 END, - m.amount
        FROM ended e, dpcli.spread(e.cost, e.blocks) m WHERE wanted IS NULL OR e.blocks IS NOT NULL
    ), total AS (SELECT p.name, sum(p.spent)::text AS spent, sum(p.reserved)::text AS reserved FROM part p GROUP BY p.name),
    open_run AS (
      SELECT m.key, m.value FROM jsonb_each(noted -> 'under_way') m
      UNION ALL SELECT s.key, jsonb_build_array(s.seq, s.hash, 'reserved') FROM since s WHERE s.kind = 'reserve'
    ), standing AS (
      SELECT o.key, CASE WHEN EXISTS (SELECT FROM since s WHERE s.kind = 'start' AND s.key = o.key)
        THEN jsonb_set(o.value, '{2}', '"started"'::jsonb) ELSE o.value END AS value
      FROM open_run o WHERE NOT EXISTS (SELECT FROM ended e WHERE e.key = o.key)
    ), proposed AS (
      SELECT m.key::bigint AS seq, m.value AS hash, dpcli.subject(p.body::jsonb) AS subject
      FROM jsonb_each(coalesce(noted -> 'proposals', '{}'::jsonb)) m
        JOIN dpcli.entry p ON p.dataset = of_dataset AND p.seq = m.key::bigint
      UNION ALL SELECT s.seq, to_jsonb(s.hash), s.subject FROM since s WHERE s.kind = 'propose'
    ), quoted AS (
      SELECT DISTINCT ON (q.subject) q.seq, q.hash, q.subject FROM (
        SELECT m.key::bigint AS seq, m.value AS hash, dpcli.subject(p.body::jsonb) AS subject
        FROM jsonb_each(coalesce(noted -> 'quotas', '{}'::jsonb)) m
          JOIN dpcli.entry p ON p.dataset = of_dataset AND p.seq = m.key::bigint
        UNION ALL SELECT s.seq, to_jsonb(s.hash), s.subject FROM since s WHERE s.kind = 'quota') q
      ORDER BY q.subject, q.seq DESC
    ), personal AS (
      SELECT w.key AS payer, m.key AS name, m.value::numeric AS amount FROM jsonb_each(coalesce(noted -> 'people', '{}'::jsonb)) w,
        jsonb_each_text(CASE WHEN wanted IS NULL THEN w.value ELSE dpcli.sums_on(w.value, noted -> 'caps', in_window) END) m
      UNION ALL SELECT s.payer, m.name, m.amount FROM since s, dpcli.spread(s.cost, s.blocks) m
        WHERE s.kind IN ('spend', 'reserve') AND (wanted IS NULL OR s.blocks IS NOT NULL)
      UNION ALL SELECT e.payer, m.name, - m.amount FROM ended e, dpcli.spread(e.cost, e.blocks) m
        WHERE e.kind = 'void' AND (wanted IS NULL OR e.blocks IS NOT NULL)
      UNION ALL SELECT o.payer, o.name, o.amount FROM dpcli.paid_up_to(of_dataset, base) o
        WHERE noted -> 'people' IS NULL AND EXISTS (SELECT FROM quoted)
    ), person AS (
      SELECT t.payer, jsonb_object_agg(t.name, t.amount) AS amounts
      FROM (SELECT p.payer, p.name, sum(p.amount)::text AS amount FROM personal p GROUP BY p.payer, p.name) t GROUP BY t.payer
    ), amended AS (
      SELECT s.seq, s.content, (s.content ->> 'epsilon')::numeric AS cap, greatest((noted ->> 'largest')::numeric,
        max((s.content ->> 'epsilon')::numeric) OVER (ORDER BY s.seq ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)) AS before
      FROM since s WHERE s.kind = 'amend'
    ), raised AS (SELECT a.content ? 'unseen' AS unseen FROM amended a WHERE a.cap > a.before)
    SELECT (noted - 'unseen') || jsonb_build_object(
      'seq', (SELECT d.seq FROM dpcli.dataset d WHERE d.name = of_dataset),
      'hash', (SELECT d.head FROM dpcli.dataset d WHERE d.name = of_dataset),
      'spent', (SELECT coalesce(jsonb_object_agg(t.name, t.spent), '{}'::jsonb) FROM total t),
      'reserved', (SELECT coalesce(jsonb_object_agg(t.name, t.reserved), '{}'::jsonb) FROM total t),
      'under_way', (SELECT coalesce(jsonb_object_agg(s.key, s.value), '{}'::jsonb) FROM standing s),
      'charges', (noted ->> 'charges')::bigint + (SELECT count(*) FROM since s WHERE s.kind IN ('spend', 'reserve')),
      'last', coalesce((SELECT to_jsonb(max(s.seq)) FROM since s WHERE s.kind IN ('spend', 'reserve')), noted -> 'last'),
      'latest', greatest((noted ->> 'latest') COLLATE "C", (SELECT o.stamp FROM (
        SELECT s.stamp COLLATE "C" AS stamp FROM since s ORDER BY s.stamp COLLATE "C" DESC NULLS LAST OFFSET 0) o
        WHERE dpcli.is_stamp(o.stamp) LIMIT 1)),
      'caps', coalesce((SELECT a.content -> 'caps' FROM amended a ORDER BY a.seq DESC LIMIT 1), noted -> 'caps'),
      'epsilon', coalesce((SELECT a.content -> 'epsilon' FROM amended a ORDER BY a.seq DESC LIMIT 1), noted -> 'epsilon'),
      'largest', greatest((noted ->> 'largest')::numeric, (SELECT max(a.cap) FROM amended a)),
      'schema', coalesce((SELECT s.content -> 'schema' FROM since s WHERE s.kind IN ('upgrade', 'copied') ORDER BY s.seq DESC LIMIT 1), noted -> 'schema'),
      'version', coalesce((SELECT s.content -> 'version' FROM since s WHERE s.kind IN ('upgrade', 'copied') ORDER BY s.seq DESC LIMIT 1), noted -> 'version')
    ) || CASE WHEN first #> '{terms,blocks}' IS NULL THEN '{}'::jsonb ELSE jsonb_build_object('retired',
      (SELECT coalesce(jsonb_agg(r.block ORDER BY r.block COLLATE "C"), '[]'::jsonb) FROM (
        SELECT b.block FROM jsonb_array_elements_text(noted -> 'retired') b (block)
        UNION SELECT b.block FROM since s, jsonb_array_elements_text(s.blocks) b (block) WHERE s.kind = 'retire') r)) END
    || CASE WHEN ((noted ->> 'largest')::numeric <= at_opening::text::numeric AND EXISTS (SELECT FROM raised) OR noted ? 'unseen')
      AND NOT EXISTS (SELECT FROM raised r WHERE NOT r.unseen) THEN '{"unseen": true}'::jsonb ELSE '{}'::jsonb END
    || CASE WHEN NOT EXISTS (SELECT FROM quoted) THEN '{}'::jsonb ELSE jsonb_build_object('checkpoint', 2,
      'quotas', (SELECT jsonb_object_agg(q.seq::text, q.hash) FROM quoted q),
      'people', (SELECT coalesce(jsonb_object_agg(p.payer, p.amounts), '{}'::jsonb) FROM person p)) END
    || CASE WHEN NOT two THEN '{}'::jsonb ELSE jsonb_build_object('proposals',
      (SELECT coalesce(jsonb_object_agg(p.seq::text, p.hash), '{}'::jsonb) FROM proposed p WHERE NOT EXISTS (
        SELECT FROM since s WHERE s.seq > p.seq AND (s.subject = p.subject OR s.kind = 'refuse' AND s.content -> 'proposal' = to_jsonb(p.seq))))) END
  );
END $$;


ALTER FUNCTION dpcli.standing(of_dataset text, in_window jsonb) OWNER TO ledger_owner;

--
-- Name: subject(jsonb); Type: FUNCTION; Schema: dpcli; Owner: ledger_owner
--

CREATE FUNCTION dpcli.subject(content jsonb) RETURNS text
    LANGUAGE sql IMMUTABLE
    SET search_path TO 'pg_catalog', 'dpcli', 'pg_temp'
    AS $$
  SELECT CASE
    WHEN asks ->> 'kind' = 'amend' THEN 'cap'
    WHEN asks ->> 'kind' = 'quota' THEN format('quota of %s %s', asks ->> 'of', asks ->> 'name')
    WHEN asks ->> 'kind' = 'moved' THEN 'place'
    WHEN asks ->> 'kind' IN ('start', 'commit', 'void') THEN 'run ' || (asks ->> 'key')
  END FROM (SELECT CASE WHEN content ->> 'kind' = 'propose' THEN content -> 'asks' ELSE content END) one (asks)
$$;


ALTER FUNCTION dpcli.subject(content jsonb) OWNER TO ledger_owner;

--
-- Name: sums_on(jsonb, jsonb, jsonb); Type: FUNCTION; Schema: dpcli; Owner: ledger_owner
--

CREATE FUNCTION dpcli.sums_on(sums jsonb, caps jsonb, blocks jsonb) RETURNS jsonb
    LANGUAGE sql IMMUTABLE
    SET search_path TO 'pg_catalog', 'dpcli', 'pg_temp'
    AS $$
  SELECT coalesce(jsonb_object_agg(w.name, w.sum), '{}'::jsonb)
  FROM (SELECT m.name, sums -> m.name AS sum FROM dpcli.spread(caps, blocks) m) w WHERE w.sum IS NOT NULL
$$;


ALTER FUNCTION dpcli.sums_on(sums jsonb, caps jsonb, blocks jsonb) OWNER TO ledger_owner;

--
-- Name: take(text, bigint, text, text); Type: FUNCTION; Schema: dpcli; Owner: ledger_owner
--

CREATE FUNCTION dpcli.take(of_dataset text, new_seq bigint, new_body text, new_hash text) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'dpcli', 'pg_temp'
    AS $_$
DECLARE
  content jsonb;
  wrong text;
  last dpcli.dataset;
BEGIN
  PERFORM dpcli.permit_moving();
  PERFORM dpcli.require(new_body ~ '^[ -~]+$' AND length(new_body) <= 4000000, 'expected an entry in ASCII');
  PERFORM dpcli.require(new_hash = encode(sha256(convert_to(new_body, 'UTF8')), 'hex'), 'the hash is not that of the entry');
  PERFORM dpcli.require(new_body::json IS NOT NULL AND json_typeof(new_body::json) = 'object', 'expected an object');
  PERFORM dpcli.require(dpcli.canonical(new_body::json, 0) = new_body, 'expected an entry in its one spelling');
  content := new_body::jsonb;
  PERFORM dpcli.require(jsonb_typeof(content -> 'kind') = 'string' AND dpcli.rules() -> 'entries' ? (content ->> 'kind'),
    'expected a known kind of entry');
  PERFORM dpcli.require(content -> 'ledger' = '1'::jsonb, 'expected format 1');
  wrong := dpcli.wrong_table(dpcli.rules() -> 'common' || (dpcli.rules() #> ARRAY['entries', content ->> 'kind']), content);
  PERFORM dpcli.require(wrong IS NULL, format('entry %s: %s', new_seq, wrong));
  PERFORM dpcli.require(content ->> 'dataset' = of_dataset AND content -> 'seq' = to_jsonb(new_seq), 'the entry belongs elsewhere');
  IF new_seq = 1 THEN
    PERFORM dpcli.require(content ->> 'kind' = 'open', 'expected an opening as the first entry');
    PERFORM dpcli.require(NOT EXISTS (SELECT FROM dpcli.dataset d WHERE d.name = of_dataset), 'expected a dataset that is new here');
    PERFORM dpcli.check_open(of_dataset, content, new_hash);
    INSERT INTO dpcli.copying VALUES (of_dataset);
  ELSE
    SELECT d.* INTO last FROM dpcli.dataset d WHERE d.name = of_dataset AND dpcli.is_member(d.team) FOR UPDATE;
    PERFORM dpcli.require(EXISTS (SELECT FROM dpcli.copying c WHERE c.dataset = of_dataset) AND last.name IS NOT NULL,
      'expected a dataset that is new here');
    PERFORM dpcli.require(new_seq = last.seq + 1 AND content ->> 'previous' = last.head, 'the entry does not follow the end of the chain');
    UPDATE dpcli.dataset d SET seq = new_seq, head = new_hash WHERE d.name = of_dataset;
  END IF;
  INSERT INTO dpcli.entry VALUES (of_dataset, new_seq, new_body, new_hash);
  PERFORM dpcli.note(of_dataset, new_seq, content ->> 'kind' = 'quota');
END $_$;


ALTER FUNCTION dpcli.take(of_dataset text, new_seq bigint, new_body text, new_hash text) OWNER TO ledger_owner;

--
-- Name: takes_two(text); Type: FUNCTION; Schema: dpcli; Owner: ledger_owner
--

CREATE FUNCTION dpcli.takes_two(of_dataset text) RETURNS boolean
    LANGUAGE sql STABLE
    SET search_path TO 'pg_catalog', 'dpcli', 'pg_temp'
    AS $$
  SELECT EXISTS (SELECT FROM dpcli.entry e WHERE e.dataset = of_dataset AND e.seq = 1
    AND e.body::jsonb #> '{terms,two_person}' = 'true'::jsonb)
$$;


ALTER FUNCTION dpcli.takes_two(of_dataset text) OWNER TO ledger_owner;

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
-- Name: copying; Type: TABLE; Schema: dpcli; Owner: ledger_owner
--

CREATE TABLE dpcli.copying (
    dataset text NOT NULL
);


ALTER TABLE dpcli.copying OWNER TO ledger_owner;

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
-- Data for Name: copying; Type: TABLE DATA; Schema: dpcli; Owner: ledger_owner
--

COPY dpcli.copying (dataset) FROM stdin;
\.


--
-- Data for Name: dataset; Type: TABLE DATA; Schema: dpcli; Owner: ledger_owner
--

COPY dpcli.dataset (name, team, fingerprint, seq, head) FROM stdin;
visits	\N	ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff	11	08fa776606868c6e6b5fe0baca44def967dfd498260eef9ea90ecbbdcd3c9c96
clicks	\N	\N	3	6f850f7525af6babdf981162b867a35d36af362780068e85cbc0534ca193073e
days	\N	\N	7	ec341ac4415ab90a56019d84796408b83a9e61568f66dd8d76e42362cfeaef7e
planned	\N	\N	2	63a1a6798de33644c5d4ed42ebf02f5db28bb763b5dd89b4c35ffc108eb5e8b4
\.


--
-- Data for Name: entry; Type: TABLE DATA; Schema: dpcli; Owner: ledger_owner
--

COPY dpcli.entry (dataset, seq, body, hash) FROM stdin;
visits	1	{"caps":{"delta":"0.000001","epsilon":"1"},"dataset":"visits","dpcli":"0.1.0","kind":"open","ledger":1,"previous":"0000000000000000000000000000000000000000000000000000000000000000","seq":1,"terms":{"adjacency":"add-remove","dataset_size":50000,"delta":1e-06,"epsilon":1.0,"filter":"approx-dp","fingerprint":"ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff","mode":"adaptive","schema":"655108a17f4c8dd32fea3d0ecb968f9aca2ebe9fdf4e0c0f96cc2368a803ae1f","unit":"user","version":7},"when":"2026-11-28T07:09:26Z","who":"ledger_owner"}	16d27c33c9934fa204e692e3cc4655c8b7f77aec721e5a5ebf1e8a0ccfa8d06a
visits	2	{"cost":{"delta":"0","epsilon":"0.1"},"dataset":"visits","delta":"0.0","detail":"epsilon at delta = 0.0 by basic","dpcli":"0.1.0","key":"first","kind":"spend","ledger":1,"pipeline":{"mechanism":[{"epsilon":0.1,"name":"query","type":"pure-dp"}],"privacy":{"adjacency":"add-remove","max_contributions":1,"unit":"user"}},"previous":"16d27c33c9934fa204e692e3cc4655c8b7f77aec721e5a5ebf1e8a0ccfa8d06a","seq":2,"when":"2026-11-28T07:09:26Z","who":"ledger_owner","why":"a first look"}	1b30a646568cce35e5b0ace8eed7942909f9ddec73b2cff8bb8b3e3e4e094b16
visits	3	{"cost":{"delta":"0","epsilon":"0.2"},"dataset":"visits","delta":"0.0","detail":"epsilon at delta = 0.0 by basic","dpcli":"0.1.0","expires":"2999-01-01T00:00:00Z","key":"long","kind":"reserve","ledger":1,"pipeline":{"mechanism":[{"epsilon":0.2,"name":"query","type":"pure-dp"}],"privacy":{"adjacency":"add-remove","max_contributions":1,"unit":"user"}},"previous":"1b30a646568cce35e5b0ace8eed7942909f9ddec73b2cff8bb8b3e3e4e094b16","seq":3,"when":"2026-11-28T07:09:26Z","who":"ledger_owner","why":"the night"}	24dbeebb980bf97825c50353a95e9465cd291a05856ede9083dfcb4046040fe6
visits	4	{"dataset":"visits","dpcli":"0.1.0","key":"long","kind":"start","ledger":1,"previous":"24dbeebb980bf97825c50353a95e9465cd291a05856ede9083dfcb4046040fe6","seq":4,"when":"2026-11-28T07:09:26Z","who":"ledger_owner"}	9cbb20da47ce2177f3180b99040937bfa55f630b0ba04cab3f23e12eaee46093
visits	5	{"dataset":"visits","dpcli":"0.1.0","key":"long","kind":"commit","ledger":1,"previous":"9cbb20da47ce2177f3180b99040937bfa55f630b0ba04cab3f23e12eaee46093","seq":5,"when":"2026-11-28T07:09:26Z","who":"ledger_owner"}	6682bf1267b3b58983f80d614d07fe58613b866be3d0644920d1cff57cc83629
visits	6	{"cost":{"delta":"0","epsilon":"0.3"},"dataset":"visits","delta":"0.0","detail":"epsilon at delta = 0.0 by basic","dpcli":"0.1.0","expires":"2999-01-01T00:00:00Z","key":"cancelled","kind":"reserve","ledger":1,"pipeline":{"mechanism":[{"epsilon":0.3,"name":"query","type":"pure-dp"}],"privacy":{"adjacency":"add-remove","max_contributions":1,"unit":"user"}},"previous":"6682bf1267b3b58983f80d614d07fe58613b866be3d0644920d1cff57cc83629","seq":6,"when":"2026-11-28T07:09:27Z","who":"ledger_owner"}	3e0a17d4754ca22d111f51b19168452594786131952d5cd25c2eeea96f30a80c
visits	7	{"dataset":"visits","dpcli":"0.1.0","key":"cancelled","kind":"void","ledger":1,"previous":"3e0a17d4754ca22d111f51b19168452594786131952d5cd25c2eeea96f30a80c","seq":7,"when":"2026-11-28T07:09:27Z","who":"ledger_owner","why":"the job never started"}	163343036ee74f6159e9ca010b83599f7e2ee1d587a9978ed0be40d87e1a12dd
visits	8	{"approver":"the board","caps":{"delta":"0.000001","epsilon":"1.5"},"dataset":"visits","dpcli":"0.1.0","epsilon":1.5,"kind":"amend","ledger":1,"previous":"163343036ee74f6159e9ca010b83599f7e2ee1d587a9978ed0be40d87e1a12dd","seq":8,"when":"2026-11-28T07:09:27Z","who":"ledger_owner","why":"a second question"}	d28b400ebfe272059bf1c689e4b3df9cf74e6d3d4722ad9ef23b0fe4a1885ff8
visits	9	{"cost":{"delta":"0","epsilon":"0.25"},"dataset":"visits","delta":"0.0","detail":"epsilon at delta = 0.0 by basic","dpcli":"0.1.0","expires":"2999-01-01T00:00:00Z","key":"under way","kind":"reserve","ledger":1,"pipeline":{"mechanism":[{"epsilon":0.25,"name":"query","type":"pure-dp"}],"privacy":{"adjacency":"add-remove","max_contributions":1,"unit":"user"}},"previous":"d28b400ebfe272059bf1c689e4b3df9cf74e6d3d4722ad9ef23b0fe4a1885ff8","seq":9,"when":"2026-11-28T07:09:27Z","who":"ledger_owner"}	bff515e781636739af744da318d5cd50f0a5c40a70e191cf2df07bba96bc0593
visits	10	{"dataset":"visits","dpcli":"0.1.0","key":"under way","kind":"start","ledger":1,"previous":"bff515e781636739af744da318d5cd50f0a5c40a70e191cf2df07bba96bc0593","seq":10,"when":"2026-11-28T07:09:27Z","who":"ledger_owner"}	627d36e81197e805aec0ff6973f1bb4d1d92e37dd26e2fac132938c9a166049e
visits	11	{"cost":{"delta":"0","epsilon":"0.125"},"dataset":"visits","delta":"0.0","detail":"epsilon at delta = 0.0 by basic","dpcli":"0.1.0","expires":"2999-01-01T00:00:00Z","key":"waiting","kind":"reserve","ledger":1,"pipeline":{"mechanism":[{"epsilon":0.125,"name":"query","type":"pure-dp"}],"privacy":{"adjacency":"add-remove","max_contributions":1,"unit":"user"}},"previous":"627d36e81197e805aec0ff6973f1bb4d1d92e37dd26e2fac132938c9a166049e","seq":11,"when":"2026-11-28T07:09:27Z","who":"ledger_owner"}	08fa776606868c6e6b5fe0baca44def967dfd498260eef9ea90ecbbdcd3c9c96
clicks	1	{"caps":{"rdp":"2.4569501045838482156"},"dataset":"clicks","dpcli":"0.1.0","kind":"open","ledger":1,"previous":"0000000000000000000000000000000000000000000000000000000000000000","seq":1,"terms":{"adjacency":"add-remove","delta":1e-06,"epsilon":4.0,"filter":"rdp","mode":"adaptive","parameters":{"order":8.0},"schema":"655108a17f4c8dd32fea3d0ecb968f9aca2ebe9fdf4e0c0f96cc2368a803ae1f","unit":"user","version":7},"when":"2026-11-28T07:09:27Z","who":"ledger_owner"}	8ff411c2d44854111143f538c6bc7fdfc355a1255dfe4c0315a617473e8fc340
clicks	2	{"cost":{"rdp":"0.00025899123012430380967"},"dataset":"clicks","delta":"0.0","detail":"Renyi divergence at order 8","dpcli":"0.1.0","key":"sampled","kind":"spend","ledger":1,"pipeline":{"mechanism":[{"name":"train","noise_multiplier":4.0,"sampling":{"rate":0.01,"scheme":"poisson"},"steps":10,"type":"gaussian"}],"privacy":{"adjacency":"add-remove","max_contributions":1,"unit":"user"}},"previous":"8ff411c2d44854111143f538c6bc7fdfc355a1255dfe4c0315a617473e8fc340","seq":2,"when":"2026-11-28T07:09:27Z","who":"ledger_owner","why":"L\\u00e4ufe \\u65e5\\u672c"}	65630eff3a5c6b7dad03bf788279013c80d7e8032af2da5774941fa37ee5ecdd
clicks	3	{"cost":{"rdp":"0.0044444444444444583184"},"dataset":"clicks","delta":"0.0","detail":"Renyi divergence at order 8","dpcli":"0.1.0","key":"plain","kind":"spend","ledger":1,"pipeline":{"mechanism":[{"name":"train","noise_multiplier":30.0,"type":"gaussian"}],"privacy":{"adjacency":"add-remove","max_contributions":1,"unit":"user"}},"previous":"65630eff3a5c6b7dad03bf788279013c80d7e8032af2da5774941fa37ee5ecdd","seq":3,"when":"2026-11-28T07:09:27Z","who":"ledger_owner"}	6f850f7525af6babdf981162b867a35d36af362780068e85cbc0534ca193073e
days	1	{"caps":{"rho":"0.18506984065336790079"},"dataset":"days","dpcli":"0.1.0","kind":"open","ledger":1,"previous":"0000000000000000000000000000000000000000000000000000000000000000","seq":1,"terms":{"adjacency":"add-remove","blocks":{"by":"day","column":"event_date","max_blocks":1},"delta":1e-06,"epsilon":3.0,"filter":"zcdp","mode":"adaptive","schema":"655108a17f4c8dd32fea3d0ecb968f9aca2ebe9fdf4e0c0f96cc2368a803ae1f","unit":"user","version":7},"when":"2026-11-28T07:09:27Z","who":"ledger_owner"}	75ed1bb7d55db7ecac3510cd41d465bee369086c34dad49c411c5f229421dd28
days	2	{"cost":{"rho":"0.02"},"dataset":"days","delta":"0.0","detail":"sum of rho","dpcli":"0.1.0","key":"one","kind":"spend","ledger":1,"pipeline":{"mechanism":[{"name":"train","noise_multiplier":5.0,"type":"gaussian"}],"privacy":{"adjacency":"add-remove","max_contributions":1,"unit":"user"}},"previous":"75ed1bb7d55db7ecac3510cd41d465bee369086c34dad49c411c5f229421dd28","seq":2,"when":"2026-11-28T07:09:27Z","who":"ledger_owner","window":["2026-01-01","2026-01-02","2026-01-03","2026-01-04","2026-01-05","2026-01-06","2026-01-07","2026-01-08","2026-01-09","2026-01-10","2026-01-11","2026-01-12","2026-01-13","2026-01-14"]}	4e5644f4d98b3f4a62285ef57357482ef11c4ab8b8b6a0ddb8435d5081e48cf8
days	3	{"cost":{"rho":"0.02"},"dataset":"days","delta":"0.0","detail":"sum of rho","dpcli":"0.1.0","expires":"2999-01-01T00:00:00Z","key":"two","kind":"reserve","ledger":1,"pipeline":{"mechanism":[{"name":"train","noise_multiplier":5.0,"type":"gaussian"}],"privacy":{"adjacency":"add-remove","max_contributions":1,"unit":"user"}},"previous":"4e5644f4d98b3f4a62285ef57357482ef11c4ab8b8b6a0ddb8435d5081e48cf8","seq":3,"when":"2026-11-28T07:09:27Z","who":"ledger_owner","window":["2026-01-08","2026-01-09","2026-01-10"]}	5a0b05421cff1af97ab10bff625b1e2feb6e4f4aa0a6720a508b18b9a6d70464
days	4	{"dataset":"days","dpcli":"0.1.0","kind":"retire","ledger":1,"previous":"5a0b05421cff1af97ab10bff625b1e2feb6e4f4aa0a6720a508b18b9a6d70464","seq":4,"when":"2026-11-28T07:09:27Z","who":"ledger_owner","why":"deleted","window":["2026-01-01","2026-01-02","2026-01-03"]}	88fd9f8ba5cb6ea8188cf898829b6cafdb7997ef671e909d14d8c8fd96b75d79
days	5	{"cost":{"rho":"0.03125"},"dataset":"days","delta":"0.0","detail":"sum of rho","dpcli":"0.1.0","key":"three","kind":"spend","ledger":1,"pipeline":{"mechanism":[{"name":"train","noise_multiplier":4.0,"type":"gaussian"}],"privacy":{"adjacency":"add-remove","max_contributions":1,"unit":"user"}},"previous":"88fd9f8ba5cb6ea8188cf898829b6cafdb7997ef671e909d14d8c8fd96b75d79","seq":5,"when":"2026-11-28T07:09:27Z","who":"ledger_owner","window":["2026-01-04"]}	c68c2885a7a360fd2a0d29d9467c417fa8292c8838028c4852637d2853ac021a
days	6	{"approver":"the board","caps":{"rho":"0.24464169425037299299"},"dataset":"days","dpcli":"0.1.0","epsilon":3.5,"kind":"amend","ledger":1,"previous":"c68c2885a7a360fd2a0d29d9467c417fa8292c8838028c4852637d2853ac021a","seq":6,"when":"2026-11-28T07:09:27Z","who":"ledger_owner","why":"more"}	fa11d5d400923dea5c925acf511cacc778cef8dbc450c1cbb3d9829dfc4499a7
days	7	{"cost":{"rho":"0.0061728395061728391636"},"dataset":"days","delta":"0.0","detail":"sum of rho","dpcli":"0.1.0","key":"four","kind":"spend","ledger":1,"pipeline":{"mechanism":[{"name":"train","noise_multiplier":9.0,"type":"gaussian"}],"privacy":{"adjacency":"add-remove","max_contributions":1,"unit":"user"}},"previous":"fa11d5d400923dea5c925acf511cacc778cef8dbc450c1cbb3d9829dfc4499a7","seq":7,"when":"2026-11-28T07:09:27Z","who":"ledger_owner","window":["2026-02-28","2026-03-01","2026-03-02"]}	ec341ac4415ab90a56019d84796408b83a9e61568f66dd8d76e42362cfeaef7e
planned	1	{"caps":{"run 1":"2"},"dataset":"planned","dpcli":"0.1.0","kind":"open","ledger":1,"previous":"0000000000000000000000000000000000000000000000000000000000000000","seq":1,"terms":{"adjacency":"add-remove","certified":{"accountant":"exact","epsilon":0.9999974190559359},"declared":[{"pipeline":{"mechanism":[{"epsilon":0.5,"name":"query","type":"pure-dp"}],"privacy":{"adjacency":"add-remove","max_contributions":1,"unit":"user"}},"runs":2}],"delta":1e-06,"epsilon":2.0,"mode":"declared","schema":"655108a17f4c8dd32fea3d0ecb968f9aca2ebe9fdf4e0c0f96cc2368a803ae1f","unit":"user","version":7},"when":"2026-11-28T07:09:28Z","who":"ledger_owner"}	9373b83167537cc6b8521972fe960ce9ec24323284c73439fa876b2923f34dc3
planned	2	{"cost":{"run 1":"1"},"dataset":"planned","delta":"0.0","detail":"run 1 of the declared set","dpcli":"0.1.0","key":"once","kind":"spend","ledger":1,"pipeline":{"mechanism":[{"epsilon":0.5,"name":"query","type":"pure-dp"}],"privacy":{"adjacency":"add-remove","max_contributions":1,"unit":"user"}},"previous":"9373b83167537cc6b8521972fe960ce9ec24323284c73439fa876b2923f34dc3","seq":2,"when":"2026-11-28T07:09:28Z","who":"ledger_owner"}	63a1a6798de33644c5d4ed42ebf02f5db28bb763b5dd89b4c35ffc108eb5e8b4
\.


--
-- Data for Name: format; Type: TABLE DATA; Schema: dpcli; Owner: ledger_owner
--

COPY dpcli.format (version) FROM stdin;
7
\.


--
-- Name: checkpoint checkpoint_pkey; Type: CONSTRAINT; Schema: dpcli; Owner: ledger_owner
--

ALTER TABLE ONLY dpcli.checkpoint
    ADD CONSTRAINT checkpoint_pkey PRIMARY KEY (dataset);


--
-- Name: copying copying_pkey; Type: CONSTRAINT; Schema: dpcli; Owner: ledger_owner
--

ALTER TABLE ONLY dpcli.copying
    ADD CONSTRAINT copying_pkey PRIMARY KEY (dataset);


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
-- Name: entry_by_key; Type: INDEX; Schema: dpcli; Owner: ledger_owner
--

CREATE INDEX entry_by_key ON dpcli.entry USING btree (dataset, key, kind, seq);


--
-- Name: entry_once; Type: INDEX; Schema: dpcli; Owner: ledger_owner
--

CREATE UNIQUE INDEX entry_once ON dpcli.entry USING btree (dataset, key, kind) WHERE (kind <> 'count'::text);


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
-- Name: copying copying_dataset_fkey; Type: FK CONSTRAINT; Schema: dpcli; Owner: ledger_owner
--

ALTER TABLE ONLY dpcli.copying
    ADD CONSTRAINT copying_dataset_fkey FOREIGN KEY (dataset) REFERENCES dpcli.dataset(name);


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
-- Name: FUNCTION above(found jsonb, more jsonb, blocks jsonb); Type: ACL; Schema: dpcli; Owner: ledger_owner
--

REVOKE ALL ON FUNCTION dpcli.above(found jsonb, more jsonb, blocks jsonb) FROM PUBLIC;


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
-- Name: FUNCTION check_count(of_dataset text, content jsonb); Type: ACL; Schema: dpcli; Owner: ledger_owner
--

REVOKE ALL ON FUNCTION dpcli.check_count(of_dataset text, content jsonb) FROM PUBLIC;


--
-- Name: FUNCTION check_move(of_dataset text, content jsonb); Type: ACL; Schema: dpcli; Owner: ledger_owner
--

REVOKE ALL ON FUNCTION dpcli.check_move(of_dataset text, content jsonb) FROM PUBLIC;


--
-- Name: FUNCTION check_moving(of_dataset text, content jsonb); Type: ACL; Schema: dpcli; Owner: ledger_owner
--

REVOKE ALL ON FUNCTION dpcli.check_moving(of_dataset text, content jsonb) FROM PUBLIC;


--
-- Name: FUNCTION check_open(of_dataset text, content jsonb, new_hash text); Type: ACL; Schema: dpcli; Owner: ledger_owner
--

REVOKE ALL ON FUNCTION dpcli.check_open(of_dataset text, content jsonb, new_hash text) FROM PUBLIC;


--
-- Name: FUNCTION check_propose(of_dataset text, content jsonb); Type: ACL; Schema: dpcli; Owner: ledger_owner
--

REVOKE ALL ON FUNCTION dpcli.check_propose(of_dataset text, content jsonb) FROM PUBLIC;


--
-- Name: FUNCTION check_quota(of_dataset text, content jsonb); Type: ACL; Schema: dpcli; Owner: ledger_owner
--

REVOKE ALL ON FUNCTION dpcli.check_quota(of_dataset text, content jsonb) FROM PUBLIC;


--
-- Name: FUNCTION check_retire(of_dataset text, content jsonb); Type: ACL; Schema: dpcli; Owner: ledger_owner
--

REVOKE ALL ON FUNCTION dpcli.check_retire(of_dataset text, content jsonb) FROM PUBLIC;


--
-- Name: FUNCTION check_time(of_dataset text, new_seq bigint, stamp text); Type: ACL; Schema: dpcli; Owner: ledger_owner
--

REVOKE ALL ON FUNCTION dpcli.check_time(of_dataset text, new_seq bigint, stamp text) FROM PUBLIC;


--
-- Name: FUNCTION check_two(of_dataset text, content jsonb); Type: ACL; Schema: dpcli; Owner: ledger_owner
--

REVOKE ALL ON FUNCTION dpcli.check_two(of_dataset text, content jsonb) FROM PUBLIC;


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
-- Name: FUNCTION letters(); Type: ACL; Schema: dpcli; Owner: ledger_owner
--

REVOKE ALL ON FUNCTION dpcli.letters() FROM PUBLIC;


--
-- Name: FUNCTION looks(name text); Type: ACL; Schema: dpcli; Owner: ledger_owner
--

REVOKE ALL ON FUNCTION dpcli.looks(name text) FROM PUBLIC;


--
-- Name: FUNCTION moved_last(of_dataset text); Type: ACL; Schema: dpcli; Owner: ledger_owner
--

REVOKE ALL ON FUNCTION dpcli.moved_last(of_dataset text) FROM PUBLIC;


--
-- Name: FUNCTION never(); Type: ACL; Schema: dpcli; Owner: ledger_owner
--

REVOKE ALL ON FUNCTION dpcli.never() FROM PUBLIC;


--
-- Name: FUNCTION note(of_dataset text, new_seq bigint, at_once boolean); Type: ACL; Schema: dpcli; Owner: ledger_owner
--

REVOKE ALL ON FUNCTION dpcli.note(of_dataset text, new_seq bigint, at_once boolean) FROM PUBLIC;


--
-- Name: FUNCTION noted(of_dataset text); Type: ACL; Schema: dpcli; Owner: ledger_owner
--

REVOKE ALL ON FUNCTION dpcli.noted(of_dataset text) FROM PUBLIC;


--
-- Name: FUNCTION now(); Type: ACL; Schema: dpcli; Owner: ledger_owner
--

REVOKE ALL ON FUNCTION dpcli.now() FROM PUBLIC;


--
-- Name: FUNCTION over_quota(of_dataset text, found jsonb, of_payer text, more jsonb, blocks jsonb); Type: ACL; Schema: dpcli; Owner: ledger_owner
--

REVOKE ALL ON FUNCTION dpcli.over_quota(of_dataset text, found jsonb, of_payer text, more jsonb, blocks jsonb) FROM PUBLIC;


--
-- Name: FUNCTION paid_up_to(of_dataset text, last_seq bigint); Type: ACL; Schema: dpcli; Owner: ledger_owner
--

REVOKE ALL ON FUNCTION dpcli.paid_up_to(of_dataset text, last_seq bigint) FROM PUBLIC;


--
-- Name: FUNCTION permit(of_kind text); Type: ACL; Schema: dpcli; Owner: ledger_owner
--

REVOKE ALL ON FUNCTION dpcli.permit(of_kind text) FROM PUBLIC;


--
-- Name: FUNCTION permit_moving(); Type: ACL; Schema: dpcli; Owner: ledger_owner
--

REVOKE ALL ON FUNCTION dpcli.permit_moving() FROM PUBLIC;


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
-- Name: FUNCTION standing(of_dataset text, in_window jsonb); Type: ACL; Schema: dpcli; Owner: ledger_owner
--

REVOKE ALL ON FUNCTION dpcli.standing(of_dataset text, in_window jsonb) FROM PUBLIC;


--
-- Name: FUNCTION subject(content jsonb); Type: ACL; Schema: dpcli; Owner: ledger_owner
--

REVOKE ALL ON FUNCTION dpcli.subject(content jsonb) FROM PUBLIC;


--
-- Name: FUNCTION sums_on(sums jsonb, caps jsonb, blocks jsonb); Type: ACL; Schema: dpcli; Owner: ledger_owner
--

REVOKE ALL ON FUNCTION dpcli.sums_on(sums jsonb, caps jsonb, blocks jsonb) FROM PUBLIC;


--
-- Name: FUNCTION take(of_dataset text, new_seq bigint, new_body text, new_hash text); Type: ACL; Schema: dpcli; Owner: ledger_owner
--

REVOKE ALL ON FUNCTION dpcli.take(of_dataset text, new_seq bigint, new_body text, new_hash text) FROM PUBLIC;
GRANT ALL ON FUNCTION dpcli.take(of_dataset text, new_seq bigint, new_body text, new_hash text) TO dpcli_admin;


--
-- Name: FUNCTION takes_two(of_dataset text); Type: ACL; Schema: dpcli; Owner: ledger_owner
--

REVOKE ALL ON FUNCTION dpcli.takes_two(of_dataset text) FROM PUBLIC;


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


