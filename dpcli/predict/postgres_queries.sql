-- postgres_queries.py runs this before the first count in a database. Each row is a count of answers of one session.
-- identity: that of the session. total: number of answers that its charge pays for. taken: number of answers granted so far.
CREATE SCHEMA dpcli_queries;
CREATE TABLE dpcli_queries.budget (
  name text PRIMARY KEY CHECK (name ~ '^[A-Za-z0-9._-]{1,64}$'),
  identity text NOT NULL,
  total bigint NOT NULL CHECK (total >= 1),
  taken bigint NOT NULL CHECK (taken BETWEEN 0 AND total)
);
-- Refuse to delete a row, to lower `taken`, or to change another column. postgres_queries.py turns the code DPL01 into a message.
CREATE FUNCTION dpcli_queries.never_back() RETURNS trigger LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  IF TG_OP <> 'UPDATE' OR NEW.taken < OLD.taken OR (NEW.name, NEW.identity, NEW.total) IS DISTINCT FROM (OLD.name, OLD.identity, OLD.total) THEN
    RAISE EXCEPTION USING ERRCODE = 'DPL01', MESSAGE = 'the count never goes back';
  END IF;
  RETURN NEW;
END
$$;
CREATE TRIGGER never_back BEFORE UPDATE OR DELETE ON dpcli_queries.budget FOR EACH ROW EXECUTE FUNCTION dpcli_queries.never_back();
CREATE TRIGGER never_emptied BEFORE TRUNCATE ON dpcli_queries.budget FOR EACH STATEMENT EXECUTE FUNCTION dpcli_queries.never_back();
