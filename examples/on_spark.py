"""Motet on Spark: a DataFrame in, a DataFrame out; hundreds of queries would be one job like this."""

from pathlib import Path

import motet
from motet import datasets
from motet.spark.session import local_session

spark = local_session("local[2]")
flights = spark.read.parquet(str(datasets.path("nyc_flights")))
answer = motet.run(flights, Path(__file__).with_name("flights.motet"))
answer.groupBy("query").count().orderBy("query").show()
