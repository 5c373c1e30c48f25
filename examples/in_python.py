"""Motet from Python: a workload from text, events from a pandas DataFrame, results as one."""

import motet
from motet import datasets

workload = motet.read("""
QUERY recovered
RETURN COUNT(*), AVG(late.dep_delay) AS mean_delay
PATTERN SEQ(dep_very_late late, NOT dep_late, dep_ontime)
WHERE [aircraft]
GROUP BY origin
WITHIN 12 h SLIDE 12 h
""")

flights = datasets.load("nyc_flights").to_pandas()
answer = motet.run(flights, workload)
print(answer.groupby("origin")["COUNT(*)"].sum())
