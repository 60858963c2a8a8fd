-- The tables of a ledger that is kept in a PostgreSQL database (13 and later), and who sees which rows. Run once, for a new ledger.
-- An entry is a JSON text; body is the text, hash its SHA-256, and each text contains the hash of the entry before it: the entries of a
-- dataset are a chain (dpcli.ledger.chain). kind says what an entry does, key names the run that it is about, and cost is what it charges.
-- Entries are only ever added, and only by the functions append, append_all (postgres_functions.sql) and take (postgres_moving.sql).
-- No backslash here, as a session's settings change its meaning. Parameters have other names than columns: PL/pgSQL would confuse the two.

-- The version numbers of these definitions: one row for the version that was installed, and one for each upgrade (postgres_install.py).
CREATE TABLE dpcli.format (version integer PRIMARY KEY);
INSERT INTO dpcli.format VALUES (8);

-- A dataset and the end of its chain: seq and head are the number and hash of its last entry. Only members of the role team
-- see it; where team is NULL, whoever has one of the ledger's roles.
CREATE TABLE dpcli.dataset (
  name text PRIMARY KEY, team text, fingerprint text UNIQUE, seq bigint NOT NULL CHECK (seq >= 1), head text NOT NULL
);

-- The entries. kind, key and cost are copied out of the text, for indexes and sums.
CREATE TABLE dpcli.entry (
  dataset text NOT NULL REFERENCES dpcli.dataset (name), seq bigint NOT NULL CHECK (seq >= 1), body text NOT NULL, hash text NOT NULL,
  kind text NOT NULL GENERATED ALWAYS AS (body::jsonb ->> 'kind') STORED,
  key text GENERATED ALWAYS AS (body::jsonb ->> 'key') STORED,
  cost jsonb GENERATED ALWAYS AS (body::jsonb -> 'cost') STORED,
  PRIMARY KEY (dataset, seq)
);

-- The triggers below: never refuses a change, and forward lets only the end of a chain move, by one entry. ENABLE ALWAYS keeps them active
-- in a session that replicates.
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

-- Who sees which dataset. What counts is the login (session_user): not a role taken on with SET ROLE, nor the owner of a calling function.
-- is_member says whether the login is in a team, or there is none; visible names the datasets that row security shows to it.

CREATE FUNCTION dpcli.is_member(of_team text) RETURNS boolean LANGUAGE plpgsql STABLE SET search_path = pg_catalog, dpcli, pg_temp AS $$
BEGIN
  RETURN of_team IS NULL
    OR EXISTS (SELECT FROM pg_roles r WHERE r.rolname = of_team AND pg_has_role(session_user, r.oid, 'MEMBER'));
END $$;

CREATE FUNCTION dpcli.visible() RETURNS text[] LANGUAGE plpgsql STABLE SET search_path = pg_catalog, dpcli, pg_temp AS $$
BEGIN
  RETURN (SELECT coalesce(array_agg(d.name), ARRAY[]::text[]) FROM dpcli.dataset d);
END $$;

ALTER TABLE dpcli.dataset ENABLE ROW LEVEL SECURITY;
ALTER TABLE dpcli.dataset FORCE ROW LEVEL SECURITY;
ALTER TABLE dpcli.entry ENABLE ROW LEVEL SECURITY;
ALTER TABLE dpcli.entry FORCE ROW LEVEL SECURITY;
CREATE POLICY team ON dpcli.dataset USING (dpcli.is_member(team));
CREATE POLICY team ON dpcli.entry USING (dataset = ANY ((SELECT dpcli.visible())::text[]));

-- The totals of each dataset's entries up to number seq, so that a reader adds up only those after it. Only the functions
-- named at the top write it, from entries they have checked: a client that may spend must not be able to state a total.

CREATE TABLE dpcli.checkpoint (
  dataset text PRIMARY KEY REFERENCES dpcli.dataset (name), seq bigint NOT NULL, body text NOT NULL, digest text NOT NULL
);
CREATE TRIGGER never BEFORE DELETE OR TRUNCATE ON dpcli.checkpoint FOR EACH STATEMENT EXECUTE FUNCTION dpcli.never();
ALTER TABLE dpcli.checkpoint ENABLE ALWAYS TRIGGER never;
ALTER TABLE dpcli.checkpoint ENABLE ROW LEVEL SECURITY;
ALTER TABLE dpcli.checkpoint FORCE ROW LEVEL SECURITY;
CREATE POLICY team ON dpcli.checkpoint USING (dataset = ANY ((SELECT dpcli.visible())::text[]));
