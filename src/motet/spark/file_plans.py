"""Read plans of Spark, classic and Connect, that only filter parquet files and compute columns of them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame

from motet.spark.columns import ARROW_TYPES, CannotTranslate, Expression, translate_catalyst
from motet.spark.connect_columns import Scope, read_name, split_alias, translate_connect, translate_text

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


# Relations of Spark Connect that filter rows or compute columns of them.
STEPS = ("project", "filter", "with_columns", "with_columns_renamed", "drop")


def find_connect_scan(events: DataFrame) -> ScanParts:
    """Read the plan that a client of Spark Connect has made.

    Raises:
        CannotTranslate: It does more than that.
    """
    internal: Any = events
    relation = internal._plan.to_proto(internal.sparkSession.client).root
    plan, nodes = internal._plan, []
    while (kind := relation.WhichOneof("rel_type")) in STEPS:
        nodes.append(relation)
        relation, plan = getattr(relation, kind).input, plan._child
    source = relation.read.data_source
    if kind != "read" or source.format != "parquet" or source.schema or source.options or relation.read.is_streaming:
        raise CannotTranslate(str(kind))
    types = {
        field.name: ARROW_TYPES.get(field.dataType.simpleString())
        for field in type(internal)(plan, internal.sparkSession).schema
    }
    known = {name: type for name, type in types.items() if type is not None}
    scope = Scope({name: ("column", name) for name in types}, known)
    earlier = {relation.common.plan_id: scope}
    conditions = []
    for node in reversed(nodes):
        scope = replace(scope, earlier=earlier)
        if node.WhichOneof("rel_type") == "filter":
            conditions.append(translate_connect(node.filter.condition, scope))
        else:
            scope = replace(scope, columns=_compute_columns(node, scope))
        earlier = {**earlier, node.common.plan_id: scope}
    return pa.schema(list(known.items())), [scope.columns[name] for name in events.columns], conditions


def _compute_columns(node: Any, scope: Scope) -> dict[str, Expression]:
    """Return the columns behind a relation that computes, names or drops some."""
    columns = dict(scope.columns)
    match node.WhichOneof("rel_type"):
        case "project":
            listed = [pair for each in node.project.expressions for pair in _name_outputs(each, scope)]
            columns = dict(listed)
            if len(columns) < len(listed):
                raise CannotTranslate("two columns of one name")
        case "with_columns":
            for alias in node.with_columns.aliases:
                (name,) = alias.name
                columns[scope.match_name(name) or name] = translate_connect(alias.expr, scope)
        case "with_columns_renamed":
            renames = [(each.col_name, each.new_col_name) for each in node.with_columns_renamed.renames]
            new = {name: scope.match_name(old) for old, name in renames}
            if node.with_columns_renamed.rename_columns_map or len(new) < len(renames):
                raise CannotTranslate("columns renamed")
            if any(scope.match_name(name) is not None for name in new):
                raise CannotTranslate("a name that another column has")
            columns |= {name: columns.pop(old) for name, old in new.items() if old is not None}
        case "drop":
            named = [*node.drop.column_names, *map(_read_attribute, node.drop.columns)]
            for name in filter(None, map(scope.match_name, named)):
                columns.pop(name, None)
    return columns


def _name_outputs(expression: Any, scope: Scope) -> list[tuple[str, Expression]]:
    """Return the columns that an entry of a selection makes, each with its name."""
    match expression.WhichOneof("expr_type"):
        case "unresolved_star" if str(expression.unresolved_star) == "":
            return list(scope.columns.items())
        case "alias" if len(expression.alias.name) == 1:
            return [(str(expression.alias.name[0]), translate_connect(expression, scope))]
        case "unresolved_attribute":
            return [(_read_attribute(expression), translate_connect(expression, scope))]
        case "expression_string" if expression.expression_string.expression.strip() == "*":
            return list(scope.columns.items())
        case "expression_string":
            text, name = split_alias(expression.expression_string.expression)
            return [(name, translate_text(text, scope))]
    raise CannotTranslate(str(expression)[:100])


def _read_attribute(expression: Any) -> str:
    if expression.WhichOneof("expr_type") != "unresolved_attribute":
        raise CannotTranslate(str(expression)[:100])
    return read_name(expression.unresolved_attribute.unparsed_identifier)
