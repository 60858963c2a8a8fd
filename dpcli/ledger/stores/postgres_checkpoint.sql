-- Since version 3: what each dataset came to at one of its entries, so that nobody adds up all of them. Written by dpcli.append alone, from
-- entries that it let in; a login that may spend is not believed what it says of a total.

CREATE TABLE dpcli.checkpoint (
  dataset text PRIMARY KEY REFERENCES dpcli.dataset (name), seq bigint NOT NULL, body text NOT NULL, digest text NOT NULL
);
CREATE TRIGGER never BEFORE DELETE OR TRUNCATE ON dpcli.checkpoint FOR EACH STATEMENT EXECUTE FUNCTION dpcli.never();
ALTER TABLE dpcli.checkpoint ENABLE ALWAYS TRIGGER never;
ALTER TABLE dpcli.checkpoint ENABLE ROW LEVEL SECURITY;
ALTER TABLE dpcli.checkpoint FORCE ROW LEVEL SECURITY;
CREATE POLICY team ON dpcli.checkpoint USING (dataset = ANY ((SELECT dpcli.visible())::text[]));
