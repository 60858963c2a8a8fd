-- Moving a dataset between ledgers: copied entries arrive here unchanged, and a dataset that has moved away accepts nothing more.
-- An entry 'moved' closes a dataset here, and a second one names its copy; 'copied' opens a copy (move_requests.py has the steps).
-- Run before postgres_functions.sql, which grants the rights. No backslash here, as a session's settings change its meaning.

-- The datasets being copied to here, which accept no charge until their copy is complete. No login can read or write this table.
CREATE TABLE IF NOT EXISTS dpcli.copying (dataset text PRIMARY KEY REFERENCES dpcli.dataset (name));

-- Whether the dataset last left ('moved') or arrived ('copied'); NULL if it never did either.
CREATE OR REPLACE FUNCTION dpcli.moved_last(of_dataset text) RETURNS text LANGUAGE sql STABLE SET search_path = pg_catalog, dpcli, pg_temp AS $$
  SELECT e.kind FROM dpcli.entry e WHERE e.dataset = of_dataset AND e.key IS NULL AND e.kind IN ('moved', 'copied') ORDER BY e.seq DESC LIMIT 1
$$;

-- Refuse a move by a login that is no administrator (error DPL02).
CREATE OR REPLACE FUNCTION dpcli.permit_moving() RETURNS void LANGUAGE plpgsql SET search_path = pg_catalog, dpcli, pg_temp AS $$
BEGIN
  IF pg_has_role(session_user, 'dpcli_admin', 'MEMBER') IS NOT TRUE THEN
    RAISE EXCEPTION USING ERRCODE = 'DPL02', MESSAGE = format('moving a dataset needs the role dpcli_admin, which %s has not', session_user);
  END IF;
END $$;

-- Refuse what may not be appended because of a move. After 'moved', only the note that it has arrived and an upgrade are accepted; during a
-- copy, only 'copied', which opens it. A dataset that moved away opens again only if it is copied back.
CREATE OR REPLACE FUNCTION dpcli.check_moving(of_dataset text, content jsonb) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, dpcli, pg_temp AS $$
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

-- Add one copied entry, with its original author and time; for administrators. The dataset must be new here, and stays closed until the
-- entry that says who copied it and from where.
CREATE OR REPLACE FUNCTION dpcli.take(of_dataset text, new_seq bigint, new_body text, new_hash text) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, dpcli, pg_temp AS $$
DECLARE
  content jsonb;
  wrong text;
  last dpcli.dataset;
BEGIN
  PERFORM dpcli.permit_moving();
  PERFORM dpcli.require_durable();
  PERFORM dpcli.check_size(new_body, 'copied');
  PERFORM dpcli.require(new_body ~ '^[ -~]+$', 'expected an entry in ASCII');
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
END $$;
