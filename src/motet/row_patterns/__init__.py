"""SQL statements with MATCH_RECOGNIZE: row patterns are matched here, a database engine runs the rest."""
