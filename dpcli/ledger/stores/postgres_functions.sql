-- The checks that the server makes of every entry, whatever client sends it. Run for a new ledger, and again by dpcli budget upgrade.
-- No backslash here, as a session's settings change its meaning. A comment inside a function belongs to its text, which upgrades compare.
--
-- An entry is a JSON text in a dataset's hash chain (dpcli.ledger.chain), signed by a login ("who"). Its kind says what it does: 'spend'
-- and 'reserve' charge a run under a key, its name; 'start', 'commit' and 'void' are the further steps of a reserved run. A cost and a cap
-- map the names of amounts to decimals, such as rho to 0.1. If the terms of the opening entry cut the dataset into blocks, each block has
-- the caps for itself, and a run is charged on the blocks of its window. A quota limits what a person or a team may be charged. With the
-- two-person rule some kinds need an entry 'propose' and another person's approval. dpcli/ledger/__init__.py has the other words.
--
-- In order: the rules and errors; the one spelling of an entry; amounts; names that look alike; the totals of all entries (standing),
-- checkpoints, caps and quotas; blocks and windows; the types of values; a check for each kind of entry; the lock on the end of a chain;
-- appending; indexes and rights.
--
-- found and noted are totals in the form that standing returns. more is a further cost. base is the name of an amount without its block. An
-- entry is free if it costs nothing or almost nothing (is_free). said, spelled and wrong are texts: of a checkpoint, of a number, and the
-- message about a fault, or NULL. A function check_... raises an error for an entry that it does not accept. Every dataset records a hash
-- of these functions with the names of their parameters, so that a better name, or one function less, is a new version, which every
-- database would have to install.

-- The rules of dpcli.ledger.grammar as JSON: which fields an entry of each kind has, and of which type.

CREATE OR REPLACE FUNCTION dpcli.rules() RETURNS jsonb LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, dpcli, pg_temp AS $$
  SELECT '{rules}'::jsonb
$$;

-- require raises the error DPL01 with the message otherwise, unless holds is true. permit raises DPL02 unless the login has the role that a
-- kind of entry needs. The client shows both messages (postgres_connection.py).

CREATE OR REPLACE FUNCTION dpcli.require(holds boolean, otherwise text) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, dpcli, pg_temp AS $$
BEGIN
  IF holds IS NOT TRUE THEN
    RAISE EXCEPTION USING ERRCODE = 'DPL01', MESSAGE = otherwise;
  END IF;
END $$;

CREATE OR REPLACE FUNCTION dpcli.permit(of_kind text) RETURNS void LANGUAGE plpgsql SET search_path = pg_catalog, dpcli, pg_temp AS $$
DECLARE
  needed name := CASE WHEN of_kind IN ('open', 'amend', 'retire', 'upgrade', 'approve', 'quota', 'rate', 'acknowledge', 'correct') THEN 'dpcli_admin' ELSE 'dpcli_spender' END;
BEGIN
  IF pg_has_role(session_user, needed, 'MEMBER') IS NOT TRUE THEN
    RAISE EXCEPTION USING ERRCODE = 'DPL02', MESSAGE = format('%s needs the role %s, which %s has not', of_kind, needed, session_user);
  END IF;
END $$;

-- Refuse an entry that is too long. which: 'entry' for a new one, 'copied' for one from another place, where older versions allowed more.
CREATE OR REPLACE FUNCTION dpcli.check_size(body text, which text) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, dpcli, pg_temp AS $$
DECLARE
  longest integer := (dpcli.rules() ->> which)::integer;
BEGIN
  PERFORM dpcli.require(octet_length(body) <= longest,
    format('expected an entry of at most %s bytes in its canonical form, found %s', longest, octet_length(body)));
END $$;

-- canonical returns the one accepted spelling of an entry, as dpcli.ledger.chain writes it: another would make readers reject the chain.
-- deep is the depth of the value in the entry; its limit of 50 is arbitrary, and far above that of entries that dpcli writes. quoted
-- returns a string of JSON in ASCII, as Python's json module escapes it; 92 is the code of the backslash, and 55296 and 56320 begin the
-- surrogates.

CREATE OR REPLACE FUNCTION dpcli.quoted(string text) RETURNS text LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, dpcli, pg_temp AS $$
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
END $$;

-- Whether a number is spelled as Python spells it: with the fewest digits that read back as the same double. PostgreSQL may write a digit
-- more (9.999999999999999e+22 for 1e+23), where the shorter decimal lies halfway between two doubles: possible from 1e16 to 1e41 only.
-- Python writes numbers from 1e-4 to below 1e16 without an exponent. An integer has at most 400 digits.
CREATE OR REPLACE FUNCTION dpcli.is_number(spelled text) RETURNS boolean
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, dpcli, pg_temp SET extra_float_digits = 1 AS $$
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
END $$;

CREATE OR REPLACE FUNCTION dpcli.canonical(value json, deep integer) RETURNS text
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, dpcli, pg_temp AS $$
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

-- Amounts of budget are decimal strings, added exactly. is_amount has the limits of dpcli.ledger.grammar: 40 characters, 20 digits, and a
-- little more than the range of doubles. amount returns the number of such a string, and refuses any other.

CREATE OR REPLACE FUNCTION dpcli.is_amount(spelled text) RETURNS boolean
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, dpcli, pg_temp AS $$
BEGIN
  IF spelled ~ (dpcli.rules() #>> '{patterns,amount}') AND length(spelled) <= 40
    AND length(ltrim(replace(split_part(spelled, 'E', 1), '.', ''), '0')) <= 20
  THEN
    RETURN spelled::numeric = 0 OR spelled::numeric BETWEEN 1e-330 AND 1e310;
  END IF;
  RETURN false;
END $$;

CREATE OR REPLACE FUNCTION dpcli.amount(spelled text) RETURNS numeric LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, dpcli, pg_temp AS $$
BEGIN
  PERFORM dpcli.require(dpcli.is_amount(spelled), 'expected decimal numbers >= 0');
  RETURN spelled::numeric;
END $$;

-- How many entries come between two checkpoints, as in dpcli.ledger.checkpoint.
CREATE OR REPLACE FUNCTION dpcli.every() RETURNS bigint LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, dpcli, pg_temp AS $$
  SELECT 256::bigint
$$;

-- The stored checkpoint of a dataset; NULL where it has none, or one that is damaged or does not match the dataset's entries. Clients
-- do not use such a checkpoint (dpcli.ledger.checkpoint), so the next one must not be computed from it either.
CREATE OR REPLACE FUNCTION dpcli.noted(of_dataset text) RETURNS jsonb
LANGUAGE sql STABLE SET search_path = pg_catalog, dpcli, pg_temp AS $$
  WITH kept AS MATERIALIZED (
    SELECT CASE WHEN c.digest = encode(sha256(convert_to(c.body, 'UTF8')), 'hex') THEN c.body::jsonb END AS said
    FROM dpcli.checkpoint c WHERE c.dataset = of_dataset
  )
  SELECT k.said FROM kept k
  JOIN dpcli.entry e ON e.dataset = of_dataset AND e.seq = (k.said ->> 'seq')::bigint AND e.hash = k.said ->> 'hash'
  WHERE k.said @> jsonb_build_object('dataset', of_dataset) AND k.said -> 'checkpoint' IN ('1'::jsonb, '2'::jsonb) AND jsonb_typeof(k.said -> 'seq') = 'number'
$$;

-- Whether the ledger has the two-person rule: changes of the cap, or a run given back, need a second person's approval.
CREATE OR REPLACE FUNCTION dpcli.takes_two(of_dataset text) RETURNS boolean
LANGUAGE sql STABLE SET search_path = pg_catalog, dpcli, pg_temp AS $$
  SELECT EXISTS (SELECT FROM dpcli.entry e WHERE e.dataset = of_dataset AND e.seq = 1
    AND e.body::jsonb #> '{terms,two_person}' = 'true'::jsonb)
$$;

-- The subject of an entry or proposal, such as 'cap' or 'run week-7'; NULL where no proposal can be about it. As subject_of in
-- dpcli.ledger.governance.proposals.
CREATE OR REPLACE FUNCTION dpcli.subject(content jsonb) RETURNS text
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, dpcli, pg_temp AS $$
  SELECT CASE
    WHEN asks ->> 'kind' = 'amend' THEN 'cap'
    WHEN asks ->> 'kind' = 'quota' THEN format('quota of %s %s', asks ->> 'of', asks ->> 'name')
    WHEN asks ->> 'kind' = 'moved' THEN 'place'
    WHEN asks ->> 'kind' = 'rate' THEN 'rate'
    WHEN asks ->> 'kind' = 'acknowledge' THEN 'finding ' || (asks ->> 'finding')
    WHEN asks ->> 'kind' IN ('start', 'commit', 'void') THEN 'run ' || (asks ->> 'key')
  END FROM (SELECT CASE WHEN content ->> 'kind' = 'propose' THEN content -> 'asks' ELSE content END) one (asks)
$$;

-- The characters that look like others or are invisible, from dpcli.file.toml.confusables.
CREATE OR REPLACE FUNCTION dpcli.letters() RETURNS jsonb LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, dpcli, pg_temp AS $$
  SELECT '{letters}'::jsonb
$$;

-- What a name looks like: names that readers would confuse give the same result. As skeleton in dpcli.file.toml.confusables. In letters(),
-- gone has the characters that a reader does not see. Letters are replaced three times, as a replacement may itself be replaced.
CREATE OR REPLACE FUNCTION dpcli.looks(name text) RETURNS text
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, dpcli, pg_temp AS $$
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

-- A cost as rows, one per amount and block ('epsilon@2024-01-01'); one per amount where blocks is NULL. As in dpcli.ledger.amounts.
CREATE OR REPLACE FUNCTION dpcli.spread(cost jsonb, blocks jsonb) RETURNS TABLE (name text, base text, amount numeric)
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, dpcli, pg_temp AS $$
BEGIN
  RETURN QUERY SELECT m.key || coalesce('@' || b.block, ''), m.key, m.value::numeric
    FROM jsonb_each_text(cost) m LEFT JOIN jsonb_array_elements_text(blocks) b (block) ON true;
END $$;

-- The part of sums (keyed by amount and block) that lies on the given blocks.
CREATE OR REPLACE FUNCTION dpcli.sums_on(sums jsonb, caps jsonb, blocks jsonb) RETURNS jsonb
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, dpcli, pg_temp AS $$
  SELECT coalesce(jsonb_object_agg(w.name, w.sum), '{}'::jsonb)
  FROM (SELECT m.name, sums -> m.name AS sum FROM dpcli.spread(caps, blocks) m) w WHERE w.sum IS NOT NULL
$$;

-- What each person has paid for runs not voided, in entries 1 to last_seq. Checkpoints hold this only once a quota has been set.
CREATE OR REPLACE FUNCTION dpcli.paid_up_to(of_dataset text, last_seq bigint) RETURNS TABLE (payer text, name text, amount numeric)
LANGUAGE sql STABLE SET search_path = pg_catalog, dpcli, pg_temp AS $$
  SELECT coalesce(r.body::jsonb ->> 'who', ''), m.name, CASE WHEN v.seq IS NULL THEN m.amount ELSE 0 END
  FROM dpcli.entry r LEFT JOIN dpcli.entry v ON v.dataset = of_dataset AND v.key = r.key AND v.kind = 'void' AND v.seq <= last_seq,
    dpcli.spread(r.cost, r.body::jsonb -> 'window') m
  WHERE r.dataset = of_dataset AND r.seq <= last_seq AND r.kind IN ('spend', 'reserve')
$$;

-- The totals of all entries, in the form of dpcli.ledger.checkpoint: the last checkpoint plus the entries since. Every run counts unless
-- it was voided. Given in_window, only those blocks are summed, so that a run on a few blocks does not pay for all of them.
-- Its tables: since has the entries after the checkpoint; ended the reservations that these commit or void; part each contribution to an
-- amount, and total the sums; standing the reservations that have not ended; proposed and quoted the proposals and the last quota of each
-- subject; personal and person the charges of each person; amended the new caps; raised those above every cap before them.
CREATE OR REPLACE FUNCTION dpcli.standing(of_dataset text, in_window jsonb DEFAULT NULL) RETURNS jsonb
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, dpcli, pg_temp AS $$
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

-- Store a checkpoint at entry new_seq, if at_once is true or dpcli.every() entries have been added since the last; none after a dataset has
-- moved, so that a reader who continues from a checkpoint reads the entry of the move.
CREATE OR REPLACE FUNCTION dpcli.note(of_dataset text, new_seq bigint, at_once boolean) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, dpcli, pg_temp AS $$
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

-- The caps of the ledger, or of each block, by amount, as the opening or the last amendment set them.
CREATE OR REPLACE FUNCTION dpcli.caps(of_dataset text) RETURNS jsonb LANGUAGE sql STABLE SET search_path = pg_catalog, dpcli, pg_temp AS $$
  SELECT dpcli.standing(of_dataset) -> 'caps'
$$;

-- The name of the first amount that would exceed its cap if the cost more were added to the totals found, or that has no cap; NULL
-- where none would. With blocks, each block of the window has the cap of its own.
CREATE OR REPLACE FUNCTION dpcli.above(found jsonb, more jsonb, blocks jsonb) RETURNS text
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, dpcli, pg_temp AS $$
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

-- As dpcli.above, against the totals of all entries. No other function here calls it. Without it the hash of the functions would change.
CREATE OR REPLACE FUNCTION dpcli.exceeded(of_dataset text, more jsonb, blocks jsonb DEFAULT NULL) RETURNS text
LANGUAGE sql STABLE SET search_path = pg_catalog, dpcli, pg_temp AS $$
  SELECT dpcli.above(dpcli.standing(of_dataset, blocks), more, blocks)
$$;

-- The first quota that of_payer would exceed by paying the cost more, as a message; NULL where none. found: totals that cover at least
-- these blocks. Exact, without rounding, as in dpcli.ledger.governance.quotas.
CREATE OR REPLACE FUNCTION dpcli.over_quota(of_dataset text, found jsonb, of_payer text, more jsonb, blocks jsonb) RETURNS text
LANGUAGE sql STABLE SET search_path = pg_catalog, dpcli, pg_temp AS $$
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

-- The time by the server's clock, in UTC, in the form of entries.
CREATE OR REPLACE FUNCTION dpcli.now() RETURNS text LANGUAGE sql VOLATILE SET search_path = pg_catalog, dpcli, pg_temp AS $$
  SELECT to_char(clock_timestamp() AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"')
$$;

-- Names of blocks and windows of blocks, as in dpcli.ledger.blocks. Each block has exactly one name.

CREATE OR REPLACE FUNCTION dpcli.is_block(family jsonb, block text) RETURNS boolean
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, dpcli, pg_temp AS $$
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
END $$;

-- Whether value is a list of block names, sorted and without duplicates.
CREATE OR REPLACE FUNCTION dpcli.is_window(value jsonb) RETURNS boolean
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, dpcli, pg_temp AS $$
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

-- Why an entry may not have this window of blocks, as a message; NULL where it may.
CREATE OR REPLACE FUNCTION dpcli.wrong_window(family jsonb, blocks jsonb) RETURNS text
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, dpcli, pg_temp AS $$
BEGIN
  IF family IS NULL THEN
    RETURN CASE WHEN blocks IS NOT NULL THEN 'expected no window, as the dataset is not cut into blocks' END;
  ELSIF dpcli.is_window(blocks) IS NOT TRUE THEN
    RETURN 'expected the blocks that are read';
  END IF;
  RETURN (SELECT format('expected a block of the dataset, found %L', left(b.block, 60)) FROM jsonb_array_elements_text(blocks) b (block)
    WHERE dpcli.is_block(family, b.block) IS NOT TRUE LIMIT 1);
END $$;

-- The types of the fields of entries, as in dpcli.ledger.grammar.

-- Whether a string has at most this many characters, none of them invisible.
CREATE OR REPLACE FUNCTION dpcli.is_text(string text, longest integer) RETURNS boolean
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, dpcli, pg_temp AS $$
BEGIN
  IF string ~ '^[ -~]*$' THEN
    RETURN length(string) <= longest;
  END IF;
  RETURN length(string) <= longest AND NOT EXISTS (
    SELECT FROM regexp_split_to_table(string, '') c, jsonb_array_elements(dpcli.rules() -> 'unseen') r
    WHERE ascii(c) BETWEEN (r ->> 0)::integer AND (r ->> 1)::integer);
END $$;

-- Whether a text also has a visible character.
CREATE OR REPLACE FUNCTION dpcli.is_said(string text, longest integer) RETURNS boolean
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, dpcli, pg_temp AS $$
BEGIN
  IF string ~ '[!-~]' THEN
    RETURN dpcli.is_text(string, longest);
  END IF;
  RETURN dpcli.is_text(string, longest) AND (string IS NULL OR EXISTS (
    SELECT FROM regexp_split_to_table(string, '') c WHERE c <> '' AND NOT EXISTS (
      SELECT FROM jsonb_array_elements(dpcli.rules() -> 'spaces') r WHERE ascii(c) BETWEEN (r ->> 0)::integer AND (r ->> 1)::integer)));
END $$;

-- Whether a string is a delta: a number in [0, 1) in its shortest spelling.
CREATE OR REPLACE FUNCTION dpcli.is_delta(spelled text) RETURNS boolean
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, dpcli, pg_temp AS $$
BEGIN
  IF spelled !~ '^[0-9][0-9.e-]{0,29}$' OR spelled ~ '^[0-9]+$' OR NOT dpcli.is_number(spelled) THEN
    RETURN false;
  END IF;
  RETURN spelled::double precision < 1;
END $$;

-- Whether a string is a time (UTC) on a day that exists.
CREATE OR REPLACE FUNCTION dpcli.is_stamp(spelled text) RETURNS boolean
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, dpcli, pg_temp AS $$
BEGIN
  IF spelled !~ (dpcli.rules() #>> '{patterns,stamp}') OR left(spelled, 4) = '0000' THEN
    RETURN false;
  END IF;
  RETURN make_date(left(spelled, 4)::integer, substr(spelled, 6, 2)::integer, substr(spelled, 9, 2)::integer) IS NOT NULL;
END $$;

-- Whether a value is of a type of the grammar. A count is at most 10^18, and a number of runs at most 10^6.
CREATE OR REPLACE FUNCTION dpcli.is_a(of_type text, value jsonb) RETURNS boolean
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, dpcli, pg_temp AS $$
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
END $$;

-- Why an object does not have just the fields in names, each of its type, as a message; NULL where it does.
CREATE OR REPLACE FUNCTION dpcli.wrong_table(names jsonb, content jsonb) RETURNS text
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, dpcli, pg_temp AS $$
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

-- Per kind of entry, the checks that types cannot express: against earlier entries, and of one field against another.

-- Refuse terms whose guarantee per block has no proof, as in dpcli.ledger.blocks.
CREATE OR REPLACE FUNCTION dpcli.check_blocks(terms jsonb) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, dpcli, pg_temp AS $$
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

-- Refuse an opening whose terms or caps contradict each other, or whose data are known, and register the dataset.
CREATE OR REPLACE FUNCTION dpcli.check_open(of_dataset text, content jsonb, new_hash text) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, dpcli, pg_temp AS $$
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

-- How the keys that belong to one login's runs begin, as in dpcli.ledger.requests.key_scope.
CREATE OR REPLACE FUNCTION dpcli.key_scope(login text) RETURNS text LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, dpcli, pg_temp AS $$
  SELECT replace(replace(login, '%', '%25'), '/', '%2F') || '//'
$$;

-- Whether an entry costs no budget, or so little that the cap would not limit how many a spender appends: below 1e-6 in every amount, an
-- arbitrary limit. Start and commit are left out: each reservation has at most one of each.
CREATE OR REPLACE FUNCTION dpcli.is_free(of_kind text, cost jsonb) RETURNS boolean
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, dpcli, pg_temp AS $$
  SELECT of_kind IN ('count', 'void', 'propose', 'refuse')
    OR of_kind IN ('spend', 'reserve') AND NOT EXISTS (SELECT FROM jsonb_each_text(cost) m WHERE m.value::numeric >= 1e-6)
$$;

-- How many free reservations one login may have open at once. There is a limit because every checkpoint lists all open ones.
CREATE OR REPLACE FUNCTION dpcli.most_open() RETURNS bigint LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, dpcli, pg_temp AS $$
  SELECT 100::bigint
$$;

-- Refuse a free reservation of a login that has dpcli.most_open() of them already. totals: as dpcli.standing returns them.
CREATE OR REPLACE FUNCTION dpcli.check_open_runs(of_dataset text, totals jsonb) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, dpcli, pg_temp AS $$
DECLARE
  so_far bigint := (SELECT count(*) FROM jsonb_each(totals -> 'under_way') u
    JOIN dpcli.entry e ON e.dataset = of_dataset AND e.seq = (u.value ->> 0)::bigint
    WHERE e.body::jsonb ->> 'who' = session_user::text AND dpcli.is_free('reserve', e.cost));
BEGIN
  PERFORM dpcli.require(so_far < dpcli.most_open(), format('expected at most %s open reservations without a cost of one login, found %s of %s: '
    'commit or void one first', dpcli.most_open(), so_far, session_user));
END $$;

-- Refuse a charge that exceeds a cap or quota, is on a retired block, takes the key of another run or login, or states other terms than
-- the ledger.
CREATE OR REPLACE FUNCTION dpcli.check_charge(of_dataset text, content jsonb) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, dpcli, pg_temp AS $$
DECLARE
  of_key text := content ->> 'key';
  privacy jsonb := content #> '{pipeline,privacy}';
  terms jsonb := (SELECT e.body::jsonb -> 'terms' FROM dpcli.entry e WHERE e.dataset = of_dataset AND e.seq = 1);
  found jsonb;
  over text;
BEGIN
  PERFORM dpcli.require(NOT EXISTS (SELECT FROM dpcli.entry e WHERE e.dataset = of_dataset AND e.key = of_key),
    'that key is charged already');
  PERFORM dpcli.require(strpos(of_key, '//') = 0 OR starts_with(of_key, dpcli.key_scope(session_user)),
    format('expected a key of %s, which begins with %L, or one without two slashes, found %L', session_user, dpcli.key_scope(session_user), of_key));
  IF content ? 'corrects' THEN
    PERFORM dpcli.permit('correct');
    PERFORM dpcli.require(content ->> 'kind' = 'spend' AND EXISTS (SELECT FROM dpcli.entry e WHERE e.dataset = of_dataset
      AND e.key = content ->> 'corrects' AND e.kind IN ('spend', 'start', 'commit')), 'expected the key of a run that was started');
  END IF;
  PERFORM dpcli.require(privacy -> 'unit' = terms -> 'unit', 'expected a run under the ledger''s unit');
  PERFORM dpcli.require(privacy -> 'adjacency' = terms -> 'adjacency', 'expected a run under the ledger''s adjacency');
  PERFORM dpcli.require(terms -> 'dataset_size' IS NULL OR privacy -> 'dataset_size' IS NULL OR privacy -> 'dataset_size' = terms -> 'dataset_size',
    'expected a run under the ledger''s dataset_size');
  over := dpcli.wrong_window(terms -> 'blocks', content -> 'window');
  PERFORM dpcli.require(over IS NULL, over);
  found := dpcli.standing(of_dataset, content -> 'window');
  PERFORM dpcli.require(NOT content ? 'window' OR content ? 'corrects' OR found -> 'retired' = '[]'::jsonb, 'a block of the window was retired');
  over := dpcli.above(found, content -> 'cost', content -> 'window');
  PERFORM dpcli.require(over IS NULL, format('over the cap on %s', over));
  IF found ? 'quotas' THEN
    over := dpcli.over_quota(of_dataset, found, session_user::text, content -> 'cost', content -> 'window');
    PERFORM dpcli.require(over IS NULL, over);
  END IF;
  IF content ->> 'kind' = 'reserve' AND dpcli.is_free('reserve', content -> 'cost') THEN
    PERFORM dpcli.check_open_runs(of_dataset, found);
  END IF;
END $$;

-- How many free entries (dpcli.is_free) one login may append per day: as the last entry of kind rate says, or the default.
CREATE OR REPLACE FUNCTION dpcli.rate(of_dataset text) RETURNS bigint LANGUAGE sql STABLE SET search_path = pg_catalog, dpcli, pg_temp AS $$
  SELECT coalesce((SELECT e.body::jsonb ->> 'per_day' FROM dpcli.entry e
    WHERE e.dataset = of_dataset AND e.key IS NULL AND e.kind = 'rate' ORDER BY e.seq DESC LIMIT 1), dpcli.rules() ->> 'rate')::bigint
$$;

-- Refuse a free entry above the daily rate, except an administrator's proposal to change that rate. The index entry_free makes the
-- count fast in a log of any length.
CREATE OR REPLACE FUNCTION dpcli.check_rate(of_dataset text, content jsonb) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, dpcli, pg_temp AS $$
DECLARE
  today text := left(content ->> 'when', 10);
  most bigint;
  so_far bigint;
BEGIN
  IF dpcli.is_free(content ->> 'kind', content -> 'cost') AND content #>> '{asks,kind}' IS DISTINCT FROM 'rate' THEN
    most := dpcli.rate(of_dataset);
    so_far := (SELECT count(*) FROM (SELECT FROM dpcli.entry e WHERE e.dataset = of_dataset AND dpcli.is_free(e.kind, e.cost)
      AND e.body::jsonb ->> 'who' = session_user::text AND left(e.body::jsonb ->> 'when', 10) = today LIMIT most) one);
    PERFORM dpcli.require(so_far < most, format('over the rate: %s has appended %s entries without a cost on %s (UTC), and the limit is %s in a day: '
      'an administrator may raise it with dpcli budget rate', session_user, so_far, today, most));
  END IF;
END $$;

-- Refuse a quota in declared mode, and the quota of a person with another member.
CREATE OR REPLACE FUNCTION dpcli.check_quota(of_dataset text, content jsonb) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, dpcli, pg_temp AS $$
BEGIN
  PERFORM dpcli.require((SELECT e.body::jsonb #>> '{terms,mode}' FROM dpcli.entry e WHERE e.dataset = of_dataset AND e.seq = 1) = 'adaptive',
    'expected a ledger in adaptive mode');
  PERFORM dpcli.require(content ->> 'of' <> 'person' OR content -> 'members' = jsonb_build_array(content -> 'name'),
    'expected one member of a person''s quota');
END $$;

-- Refuse blocks that the dataset does not have.
CREATE OR REPLACE FUNCTION dpcli.check_retire(of_dataset text, content jsonb) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, dpcli, pg_temp AS $$
DECLARE
  family jsonb := (SELECT e.body::jsonb #> '{terms,blocks}' FROM dpcli.entry e WHERE e.dataset = of_dataset AND e.seq = 1);
  wrong text := dpcli.wrong_window(family, content -> 'window');
BEGIN
  PERFORM dpcli.require(wrong IS NULL, wrong);
END $$;

-- Refuse a start, commit or void that does not follow from the entries about the run. A reservation is started, committed or voided by the
-- login that made it, or by an administrator who gives a reason. (The move of a dataset is checked by check_moving.)
CREATE OR REPLACE FUNCTION dpcli.check_move(of_dataset text, content jsonb) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, dpcli, pg_temp AS $$
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

-- How many answers a session has given is recorded by the login that paid for it, and only grows.
CREATE OR REPLACE FUNCTION dpcli.check_count(of_dataset text, content jsonb) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, dpcli, pg_temp AS $$
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

-- Refuse a new cap in declared mode, and caps of other amounts. Clients compute the caps from epsilon; dpcli budget verify checks them.
CREATE OR REPLACE FUNCTION dpcli.check_amend(of_dataset text, content jsonb) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, dpcli, pg_temp AS $$
BEGIN
  PERFORM dpcli.require((SELECT e.body::jsonb #>> '{terms,mode}' FROM dpcli.entry e WHERE e.dataset = of_dataset AND e.seq = 1) = 'adaptive',
    'expected a ledger in adaptive mode');
  PERFORM dpcli.require(
    ARRAY(SELECT jsonb_object_keys(content -> 'caps') ORDER BY 1) = ARRAY(SELECT jsonb_object_keys(dpcli.caps(of_dataset)) ORDER BY 1),
    'expected the caps that the ledger has');
END $$;

-- A proposal must be one that its author may make and that could be carried out now; it expires after at most some days.
CREATE OR REPLACE FUNCTION dpcli.check_propose(of_dataset text, content jsonb) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, dpcli, pg_temp AS $$
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
    ELSIF content #>> '{asks,kind}' = 'amend' THEN
      PERFORM dpcli.check_amend(of_dataset, content -> 'asks');
    END IF;
  END IF;
END $$;

-- Under the two-person rule, whatever changes a cap, quota or rate, gives a run back, moves the dataset or answers a finding must be
-- what one person proposed and another approves before the proposal expires.
CREATE OR REPLACE FUNCTION dpcli.check_two(of_dataset text, content jsonb) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, dpcli, pg_temp AS $$
DECLARE
  proposed jsonb;
BEGIN
  IF NOT dpcli.takes_two(of_dataset) THEN
    PERFORM dpcli.require(content ->> 'kind' NOT IN ('propose', 'refuse') AND NOT content ?| ARRAY['proposal', 'approval'],
      'expected a ledger of two persons');
    RETURN;
  ELSIF content ->> 'kind' NOT IN ('amend', 'void', 'quota', 'rate', 'moved', 'acknowledge', 'refuse') OR content ->> 'kind' = 'moved' AND content ? 'copy' THEN
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

-- The time of an entry is by the server's clock: not in the future, at most 10 minutes ago, and not before the last entry's. (A last
-- entry that lies in the future dates from before this check existed, and is not compared.)
CREATE OR REPLACE FUNCTION dpcli.check_time(of_dataset text, new_seq bigint, stamp text) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, dpcli, pg_temp AS $$
DECLARE
  before text := (SELECT e.body::jsonb ->> 'when' FROM dpcli.entry e WHERE e.dataset = of_dataset AND e.seq = new_seq - 1);
  ago text := to_char((clock_timestamp() - interval '10 minutes') AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"');
BEGIN
  PERFORM dpcli.require((stamp COLLATE "C") >= ago AND (stamp COLLATE "C") <= dpcli.now(), 'expected the time by the server''s clock');
  PERFORM dpcli.require(before IS NULL OR (before COLLATE "C") > dpcli.now() OR (stamp COLLATE "C") >= before,
    'expected a time that is not before the last entry''s');
END $$;

-- The functions that clients call (append, append_all) run with the owner's rights, so each checks what the login (session_user) may do.

-- For how many milliseconds a transaction that has appended may keep others waiting for the end of a chain. Arbitrary; affects waiting
-- alone.
CREATE OR REPLACE FUNCTION dpcli.patience() RETURNS integer LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, dpcli, pg_temp AS $$
  SELECT 5000
$$;

-- Other open transactions that have appended: each holds the lock that mark takes as its last step, just to be found here.
CREATE OR REPLACE FUNCTION dpcli.writers() RETURNS TABLE (process integer, transaction text)
LANGUAGE sql VOLATILE SET search_path = pg_catalog, dpcli, pg_temp AS $$
  SELECT l.pid, l.virtualtransaction FROM pg_locks l JOIN pg_database d ON d.oid = l.database
  WHERE d.datname = current_database() AND l.locktype = 'relation' AND l.mode = 'RowExclusiveLock'
    AND l.relation = 'dpcli.format'::regclass AND l.pid <> pg_backend_pid()
$$;

-- Take the lock by which writers() finds a transaction that has appended.
CREATE OR REPLACE FUNCTION dpcli.mark() RETURNS void LANGUAGE plpgsql SET search_path = pg_catalog, dpcli, pg_temp AS $$
BEGIN
  LOCK TABLE dpcli.format IN ROW EXCLUSIVE MODE;
END $$;

-- End these transactions by closing their connections, where the owner of this function has the right to.
CREATE OR REPLACE FUNCTION dpcli.end_writers(of_transactions text[]) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, dpcli, pg_temp AS $$
DECLARE
  item record;
BEGIN
  FOR item IN SELECT w.process FROM dpcli.writers() w WHERE w.transaction = ANY (of_transactions) LOOP
    BEGIN
      PERFORM pg_terminate_backend(item.process);
    EXCEPTION WHEN insufficient_privilege THEN NULL;
    END;
  END LOOP;
END $$;

-- The end of a chain, locked until the transaction ends. No setting can stop a login from keeping its transaction open; so whoever has
-- waited longer than dpcli.patience() ends the transactions that had appended when that wait began and are still open. A wait that is
-- longer than that is divided into a first one of 200 ms and further ones of dpcli.patience(), after each of which the open transactions
-- are noted. In all it is at most about 60 s.
CREATE OR REPLACE FUNCTION dpcli.lock_end(of_dataset text) RETURNS dpcli.dataset
LANGUAGE plpgsql SET search_path = pg_catalog, dpcli, pg_temp AS $$
DECLARE
  stated integer;
  most integer;
  waits integer[];
  holding text[];
  last dpcli.dataset;
BEGIN
  SELECT d.* INTO last FROM dpcli.dataset d WHERE d.name = of_dataset AND dpcli.is_member(d.team) FOR UPDATE SKIP LOCKED;
  IF last.name IS NOT NULL THEN
    RETURN last;
  END IF;
  stated := (SELECT s.setting::integer FROM pg_settings s WHERE s.name = 'lock_timeout');
  most := CASE WHEN stated BETWEEN 1 AND 60000 THEN stated ELSE 60000 END;
  waits := CASE WHEN most > dpcli.patience() THEN least(200, most) || array_fill(dpcli.patience(), ARRAY[most / dpcli.patience()])
    ELSE ARRAY[most] END;
  FOR i IN 1 .. cardinality(waits) LOOP
    BEGIN
      PERFORM set_config('lock_timeout', waits[i]::text, true);
      SELECT d.* INTO last FROM dpcli.dataset d WHERE d.name = of_dataset AND dpcli.is_member(d.team) FOR UPDATE;
      PERFORM set_config('lock_timeout', stated::text, true);
      RETURN last;
    EXCEPTION WHEN lock_not_available THEN
      IF i = cardinality(waits) THEN
        RAISE;
      END IF;
      PERFORM dpcli.end_writers(holding);
      holding := ARRAY(SELECT w.transaction FROM dpcli.writers() w);
    END;
  END LOOP;
END $$;

-- Make sure that a commit survives a power failure.
CREATE OR REPLACE FUNCTION dpcli.require_durable() RETURNS void LANGUAGE plpgsql SET search_path = pg_catalog, dpcli, pg_temp AS $$
BEGIN
  PERFORM dpcli.require(current_setting('fsync') = 'on', 'the server runs with fsync off: no commit would survive a power failure');
  IF current_setting('synchronous_commit') IN ('off', 'local') THEN
    PERFORM set_config('synchronous_commit', 'on', true);
  END IF;
END $$;

-- The checks that need no other entry: length, spelling, role, signature and grammar. They may take long, so they come before anything is
-- locked.
CREATE OR REPLACE FUNCTION dpcli.check_shape(of_dataset text, new_body text) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, dpcli, pg_temp AS $$
DECLARE
  content jsonb;
  wrong text;
BEGIN
  PERFORM dpcli.check_size(new_body, 'entry');
  PERFORM dpcli.require(new_body ~ '^[ -~]+$', 'expected an entry in ASCII');
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
  PERFORM dpcli.require(content ->> 'dataset' = of_dataset, 'the entry belongs elsewhere');
END $$;

-- Append one entry that has passed check_shape, after the checks against earlier entries. A quota is followed by a checkpoint, which has
-- the charges of each person from then on.
CREATE OR REPLACE FUNCTION dpcli.append_one(of_dataset text, new_seq bigint, new_body text, new_hash text) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, dpcli, pg_temp AS $$
DECLARE
  content jsonb := new_body;
  last dpcli.dataset;
BEGIN
  PERFORM dpcli.require_durable();
  PERFORM dpcli.require(new_hash = encode(sha256(convert_to(new_body, 'UTF8')), 'hex'), 'the hash is not that of the entry');
  PERFORM dpcli.require(content -> 'seq' = to_jsonb(new_seq), 'the entry belongs elsewhere');
  IF content ->> 'kind' = 'open' THEN
    PERFORM dpcli.check_time(of_dataset, new_seq, content ->> 'when');
    PERFORM dpcli.check_open(of_dataset, content, new_hash);
    INSERT INTO dpcli.entry VALUES (of_dataset, new_seq, new_body, new_hash);
    RETURN;
  END IF;
  last := dpcli.lock_end(of_dataset);
  PERFORM dpcli.require(last.name IS NOT NULL, 'no such dataset');
  IF (new_seq, content ->> 'previous') IS DISTINCT FROM (last.seq + 1, last.head) THEN
    RAISE EXCEPTION USING ERRCODE = 'DPL03', MESSAGE = 'the entry does not follow the end of the chain';
  END IF;
  PERFORM dpcli.check_moving(of_dataset, content);
  PERFORM dpcli.check_time(of_dataset, new_seq, content ->> 'when');
  PERFORM dpcli.check_two(of_dataset, content);
  PERFORM dpcli.check_rate(of_dataset, content);
  CASE
    WHEN content ->> 'kind' IN ('spend', 'reserve') THEN PERFORM dpcli.check_charge(of_dataset, content);
    WHEN content ->> 'kind' IN ('moved', 'copied') THEN NULL;
    WHEN content ->> 'kind' = 'amend' THEN PERFORM dpcli.check_amend(of_dataset, content);
    WHEN content ->> 'kind' = 'quota' THEN PERFORM dpcli.check_quota(of_dataset, content);
    WHEN content ->> 'kind' = 'retire' THEN PERFORM dpcli.check_retire(of_dataset, content);
    WHEN content ->> 'kind' = 'propose' THEN PERFORM dpcli.check_propose(of_dataset, content);
    WHEN content ->> 'kind' IN ('refuse', 'rate', 'acknowledge') THEN NULL;
    WHEN content ->> 'kind' = 'count' THEN PERFORM dpcli.check_count(of_dataset, content);
    WHEN content ->> 'kind' = 'upgrade' THEN
      PERFORM dpcli.require(content -> 'version' = (SELECT to_jsonb(max(f.version)) FROM dpcli.format f), 'expected the version of these functions');
    ELSE PERFORM dpcli.check_move(of_dataset, content);
  END CASE;
  INSERT INTO dpcli.entry VALUES (of_dataset, new_seq, new_body, new_hash);
  UPDATE dpcli.dataset d SET seq = new_seq, head = new_hash WHERE d.name = of_dataset;
  PERFORM dpcli.note(of_dataset, new_seq, content ->> 'kind' = 'quota');
END $$;

-- Append one entry, in the transaction of the caller.
CREATE OR REPLACE FUNCTION dpcli.append(of_dataset text, new_seq bigint, new_body text, new_hash text) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, dpcli, pg_temp AS $$
BEGIN
  PERFORM dpcli.check_shape(of_dataset, new_body);
  PERFORM dpcli.append_one(of_dataset, new_seq, new_body, new_hash);
  PERFORM dpcli.mark();
END $$;

-- The same entry for another place in the chain: only its number, the hash before it and its time change.
CREATE OR REPLACE FUNCTION dpcli.sealed_again(body text, new_seq bigint, previous text) RETURNS text
LANGUAGE sql VOLATILE SET search_path = pg_catalog, dpcli, pg_temp AS $$
  SELECT '{' || string_agg(dpcli.quoted(m.key) || ':' || CASE m.key WHEN 'seq' THEN new_seq::text WHEN 'previous' THEN dpcli.quoted(previous)
    WHEN 'when' THEN dpcli.quoted(dpcli.now()) ELSE m.value::text END, ',' ORDER BY m.key COLLATE "C") || '}' FROM json_each(body::json) m
$$;

-- Append all entries or none, in one statement: a client that hangs holds no lock. Returns the entries from the first new one on; an empty
-- call is refused, as it would show a superuser every team's entries. If others have appended since the caller read the chain, the entries
-- go after theirs, so that slow clients succeed too. Error DPL03 tells the caller to read again: if both touch the same run, or both touch
-- none; if the entries are no longer allowed; or if the cap is amended and the first charge came meanwhile, as an amendment must state
-- whether outputs were seen once there are any. At most 1500 entries are appended at once, which is more than the largest history to
-- import. Every 32 entries a checkpoint is stored, for speed alone.
CREATE OR REPLACE FUNCTION dpcli.append_all(of_dataset text, first_seq bigint, bodies text[], hashes text[], milliseconds integer)
RETURNS TABLE (seq bigint, body text, hash text) LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, dpcli, pg_temp AS $$
DECLARE
  last dpcli.dataset;
  moved boolean;
  start bigint := first_seq;
  keys text[];
  until timestamptz;
BEGIN
  PERFORM dpcli.require(cardinality(bodies) BETWEEN 1 AND 1500, 'expected 1 to 1500 entries');
  PERFORM dpcli.check_shape(of_dataset, b.body) FROM unnest(bodies) b (body);
  keys := ARRAY(SELECT b.body::json ->> 'key' FROM unnest(bodies) b (body));
  PERFORM set_config('lock_timeout', greatest(1, least(milliseconds, 60000))::text, true), set_config('client_min_messages', 'warning', true);
  last := dpcli.lock_end(of_dataset);
  until := clock_timestamp() + interval '25 seconds';  -- a client of dpcli waits for 30
  moved := last.seq >= first_seq AND EXISTS (SELECT FROM dpcli.entry e
    WHERE e.dataset = of_dataset AND e.seq = first_seq - 1 AND e.hash = bodies[1]::json ->> 'previous');
  IF moved THEN
    start := last.seq + 1;
    IF EXISTS (SELECT FROM unnest(keys) k (key) JOIN dpcli.entry e ON e.dataset = of_dataset AND e.key = k.key AND e.seq >= first_seq)
      OR array_position(keys, NULL) IS NOT NULL
        AND EXISTS (SELECT FROM dpcli.entry e WHERE e.dataset = of_dataset AND e.key IS NULL AND e.seq >= first_seq)
      OR 'amend' IN (SELECT b.body::json ->> 'kind' FROM unnest(bodies) b (body))
        AND (SELECT e.seq FROM dpcli.entry e WHERE e.dataset = of_dataset AND e.cost IS NOT NULL ORDER BY e.seq LIMIT 1) >= first_seq
    THEN
      RAISE EXCEPTION USING ERRCODE = 'DPL03', MESSAGE = 'another writer was faster';
    END IF;
  END IF;
  FOR i IN 1 .. cardinality(bodies) LOOP
    PERFORM dpcli.require(clock_timestamp() < until, format('over the time: %s entries take more than 25 s, and others wait: append fewer at once',
      cardinality(bodies)));
    IF moved THEN
      bodies[i] := dpcli.sealed_again(bodies[i], start + i - 1, last.head);
      hashes[i] := encode(sha256(convert_to(bodies[i], 'UTF8')), 'hex');
      last.head := hashes[i];
    END IF;
    PERFORM dpcli.append_one(of_dataset, start + i - 1, bodies[i], hashes[i]);
    IF i % 32 = 0 THEN
      PERFORM dpcli.note(of_dataset, start + i - 1, true);  -- each further entry adds up what is not noted yet, while others wait
    END IF;
  END LOOP;
  PERFORM dpcli.mark();
  RETURN QUERY SELECT e.seq, e.body, e.hash FROM dpcli.entry e WHERE e.dataset = of_dataset AND e.seq >= start ORDER BY e.seq;
EXCEPTION WHEN SQLSTATE 'DPL01' THEN
  IF moved AND SQLERRM !~ '^over the (rate|time)' THEN
    RAISE EXCEPTION USING ERRCODE = 'DPL03', MESSAGE = SQLERRM;
  END IF;
  RAISE;
END $$;

DROP FUNCTION IF EXISTS dpcli.queue(text, integer);
DROP FUNCTION IF EXISTS dpcli.hold(text, integer);

-- The same data cannot be registered twice, whatever the case of the fingerprint, even under a team one cannot see.
CREATE UNIQUE INDEX IF NOT EXISTS dataset_data ON dpcli.dataset (lower(fingerprint));

-- A run has at most one entry of each kind, except counts.
CREATE UNIQUE INDEX IF NOT EXISTS entry_once ON dpcli.entry (dataset, key, kind) WHERE kind <> 'count';
CREATE INDEX IF NOT EXISTS entry_by_key ON dpcli.entry (dataset, key, kind, seq);

-- For dpcli.check_rate: the free entries of a login on a day.
CREATE INDEX IF NOT EXISTS entry_free ON dpcli.entry (dataset, (body::jsonb ->> 'who'), (left(body::jsonb ->> 'when', 10)))
  WHERE dpcli.is_free(kind, cost);

-- The rights of each role. The owner has its own; PUBLIC has none.

REVOKE ALL ON SCHEMA dpcli FROM PUBLIC;
REVOKE ALL ON ALL TABLES IN SCHEMA dpcli FROM PUBLIC;
REVOKE ALL ON ALL FUNCTIONS IN SCHEMA dpcli FROM PUBLIC;
GRANT USAGE ON SCHEMA dpcli TO dpcli_viewer;
GRANT SELECT ON dpcli.format, dpcli.dataset, dpcli.entry, dpcli.checkpoint TO dpcli_viewer;
GRANT EXECUTE ON FUNCTION dpcli.is_member(text), dpcli.visible() TO dpcli_viewer;
GRANT EXECUTE ON FUNCTION dpcli.take(text, bigint, text, text) TO dpcli_admin;
GRANT EXECUTE ON FUNCTION dpcli.append(text, bigint, text, text), dpcli.append_all(text, bigint, text[], text[], integer)
  TO dpcli_spender;
