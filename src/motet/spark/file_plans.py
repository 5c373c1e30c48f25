"""Read plans of Spark, classic and Connect, that only filter parquet files and compute columns of them."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame

from motet.spark.columns import (
    ARROW_TYPES,
    CannotTranslate,
    Expression,
    read_name,
    translate_catalyst,
    translate_connect,
)

# What Spark reads plain parquet files by, and how it lists them: table formats based on parquet have others.
PARQUET_FORMAT = "org.apache.spark.sql.execution.datasources.parquet.ParquetFileFormat"
FILE_INDEX = "org.apache.spark.sql.execution.datasources.InMemoryFileIndex"

# The columns of files, in Spark's types; the expression of each column of the DataFrame; conditions on rows.
ScanParts = tuple[pa.Schema, list[Expression], list[Expression]]


def find_classic_scan(events: DataFrame) -> ScanParts:
    """Read the optimized plan of a DataFrame.

    Raises:
        CannotTranslate: It does more than that.
    """
    internal: Any = events
    plan = internal._jdf.queryExecution().optimizedPlan()
    nodes = [plan]
    while (kind := nodes[-1].nodeName()) in ("Project", "Filter"):
        nodes.append(nodes[-1].child())
    relation = nodes.pop()
    if not kind.startswith("LogicalRelation") and not kind.startswith("Relation"):
        raise CannotTranslate(kind)
    names = [part.getClass().getName() for part in (relation.relation().fileFormat(), relation.relation().location())]
    if names != [PARQUET_FORMAT, FILE_INDEX]:
        raise CannotTranslate(str(names))
    attributes = _list_items(relation.output())
    types = {each.name(): ARROW_TYPES.get(each.dataType().simpleString()) for each in attributes}
    stored = pa.schema([(name, type) for name, type in types.items() if type is not None])
    known: dict[int, Expression] = {each.exprId().id(): ("column", each.name()) for each in attributes}
    conditions = []
    for node in reversed(nodes):
        if node.nodeName() == "Filter":
            conditions.append(translate_catalyst(node.condition(), known))
        else:
            listed = _list_items(node.projectList())
            known = {each.exprId().id(): translate_catalyst(each, known) for each in listed}
    outputs = [known[each.exprId().id()] for each in _list_items(plan.output())]
    return stored, outputs, conditions


def _list_items(sequence: Any) -> list[Any]:
    return [sequence.apply(at) for at in range(sequence.size())]


def find_connect_scan(events: DataFrame) -> ScanParts:
    """Read the plan that a client of Spark Connect has made.

    Raises:
        CannotTranslate: It does more than that.
    """
    internal: Any = events
    relation = internal._plan.to_proto(internal.sparkSession.client).root
    plan, nodes = internal._plan, []
    while (kind := relation.WhichOneof("rel_type")) in ("project", "filter"):
        nodes.append(relation)
        relation, plan = getattr(relation, kind).input, plan._child
    source = relation.read.data_source
    if kind != "read" or source.format != "parquet" or source.schema or source.options or relation.read.is_streaming:
        raise CannotTranslate(str(kind))
    types = {
        field.name: ARROW_TYPES.get(field.dataType.simpleString())
        for field in type(internal)(plan, internal.sparkSession).schema
    }
    stored = pa.schema([(name, type) for name, type in types.items() if type is not None])
    known: dict[str, Expression] = {name: ("column", name) for name in types}
    kinds = {name: type for name, type in types.items() if type is not None}
    conditions = []
    for node in reversed(nodes):
        if node.WhichOneof("rel_type") == "filter":
            conditions.append(translate_connect(node.filter.condition, known, kinds))
        else:
            known = {_name_output(each): translate_connect(each, known, kinds) for each in node.project.expressions}
    return stored, [known[name] for name in events.columns], conditions


def _name_output(expression: Any) -> str:
    match expression.WhichOneof("expr_type"):
        case "alias" if len(expression.alias.name) == 1:
            return str(expression.alias.name[0])
        case "unresolved_attribute":
            return read_name(expression.unresolved_attribute.unparsed_identifier)
    raise CannotTranslate(str(expression)[:100])
