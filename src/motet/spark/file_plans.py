"""Read plans of Spark, classic and Connect: which parquet files rows come from, and what filters and computes them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame

from motet.spark.columns import ARROW_TYPES, CannotTranslate, Expression, translate_catalyst
from motet.spark.connect_columns import Scope, read_name, split_alias, translate_connect, translate_text

# What Spark reads plain parquet files by, and how it lists them: table formats based on parquet have others.
PARQUET_FORMAT = "org.apache.spark.sql.execution.datasources.parquet.ParquetFileFormat"
FILE_INDEX = "org.apache.spark.sql.execution.datasources.InMemoryFileIndex"

# The joins that keep no row of one side, or any, once for each match in the other.
STREAMED_LEFT = ("Inner", "LeftOuter", "LeftSemi", "LeftAnti")
STREAMED_RIGHT = ("Inner", "RightOuter")


@dataclass(frozen=True)
class ScanParts:
    """What a plan makes of files: their columns, in Spark's types; the expression of each column of the DataFrame; and
    conditions on rows. If it is not `exact`, it leaves out conditions and joins with small tables that only Spark can
    compute.
    """

    files: Sequence[str]
    stored: pa.Schema
    outputs: list[Expression]
    conditions: list[Expression]
    exact: bool


def find_classic_scan(events: DataFrame) -> ScanParts:
    """Read the optimized plan of a DataFrame.

    Raises:
        CannotTranslate: Its columns are not those of parquet files.
    """
    internal: Any = events
    plan = internal._jdf.queryExecution().optimizedPlan()
    nodes = [plan]
    while (kind := nodes[-1].nodeName()) in ("Project", "Filter", "Join"):
        nodes.append(_find_streamed_side(nodes[-1]) if kind == "Join" else nodes[-1].child())
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
    conditions, exact = [], True
    for node in reversed(nodes):
        match node.nodeName():
            case "Join":
                exact = False
            case "Filter":
                for part in _split_conjunction(node.condition()):
                    condition = _translate_or_none(translate_catalyst, part, known)
                    exact = exact and condition is not None
                    conditions += [] if condition is None else [condition]
            case _:
                listed = _list_items(node.projectList())
                computed = {each.exprId().id(): _translate_or_none(translate_catalyst, each, known) for each in listed}
                known = {id: each for id, each in computed.items() if each is not None}
                exact = exact and len(known) == len(computed)
    outputs = [known[each.exprId().id()] for each in _list_items(plan.output())]
    return ScanParts(list(relation.relation().inputFiles()), stored, outputs, conditions, exact)


def _find_streamed_side(join: Any) -> Any:
    """Return the side of a join that is read row by row; the other is so small that Spark broadcasts it.

    Raises:
        CannotTranslate: Both are large, or the join has rows of its own.
    """
    left, right, kind = join.left(), join.right(), join.joinType().toString()
    sizes = [int(str(side.stats().sizeInBytes())) for side in (left, right)]
    is_left = sizes[0] >= sizes[1]
    hint = join.hint().rightHint() if is_left else join.hint().leftHint()
    is_small = min(sizes) <= join.conf().autoBroadcastJoinThreshold()
    if kind not in (STREAMED_LEFT if is_left else STREAMED_RIGHT):
        raise CannotTranslate(kind)
    if not is_small and not (hint.isDefined() and "broadcast" in hint.get().toString()):
        raise CannotTranslate("a large join")
    return left if is_left else right


def _split_conjunction(condition: Any) -> list[Any]:
    """Return the parts of a condition that must all hold."""
    if condition.getClass().getSimpleName() != "And":
        return [condition]
    return _split_conjunction(condition.left()) + _split_conjunction(condition.right())


def _translate_or_none(translate: Callable[[Any, Any], Expression], expression: Any, known: Any) -> Expression | None:
    """Return an expression over the columns of files; None if only Spark can compute it."""
    try:
        return translate(expression, known)
    except (CannotTranslate, KeyError):
        return None


def _list_items(sequence: Any) -> list[Any]:
    return [sequence.apply(at) for at in range(sequence.size())]


# Relations of Spark Connect that filter rows or compute columns of them.
STEPS = ("project", "filter", "with_columns", "with_columns_renamed", "drop", "join")


def find_connect_scan(events: DataFrame, names: Sequence[str]) -> ScanParts:
    """Read the plan that a client of Spark Connect has made of columns of these names.

    Raises:
        CannotTranslate: Its columns are not those of parquet files.
    """
    internal: Any = events
    relation = internal._plan.to_proto(internal.sparkSession.client).root
    plan, nodes = internal._plan, []
    while (kind := relation.WhichOneof("rel_type")) in STEPS:
        nodes.append(relation)
        if kind == "join":
            _require_broadcast(relation.join)
            relation, plan = relation.join.left, plan.left
        else:
            relation, plan = getattr(relation, kind).input, plan._child
    source = relation.read.data_source
    if kind != "read" or source.format != "parquet" or source.schema or source.options or relation.read.is_streaming:
        raise CannotTranslate(str(kind))
    read = type(internal)(plan, internal.sparkSession)
    types = {field.name: ARROW_TYPES.get(field.dataType.simpleString()) for field in read.schema}
    known = {name: type for name, type in types.items() if type is not None}
    scope = Scope({name: ("column", name) for name in types}, known)
    earlier = {relation.common.plan_id: scope}
    conditions, exact = [], True
    for node in reversed(nodes):
        scope = replace(scope, earlier=earlier)
        match node.WhichOneof("rel_type"):
            case "join":
                exact = False
            case "filter":
                condition = _translate_or_none(translate_connect, node.filter.condition, scope)
                exact = exact and condition is not None
                conditions += [] if condition is None else [condition]
            case _:
                columns, is_whole = _compute_columns(node, scope)
                scope, exact = replace(scope, columns=columns), exact and is_whole
        earlier = {**earlier, node.common.plan_id: scope}
    outputs = [scope.columns[name] for name in names]
    # Of a whole plan Spark may know that it reads none of the files.
    files = (events if exact else read).inputFiles()
    return ScanParts(files, pa.schema(list(known.items())), outputs, conditions, exact)


def _require_broadcast(join: Any) -> None:
    """Raise `CannotTranslate` unless a join is one of the left side with a table that is to be broadcast."""
    kinds = (join.JOIN_TYPE_INNER, join.JOIN_TYPE_LEFT_OUTER, join.JOIN_TYPE_LEFT_SEMI, join.JOIN_TYPE_LEFT_ANTI)
    if join.join_type not in kinds or join.right.WhichOneof("rel_type") != "hint":
        raise CannotTranslate("join")
    if join.right.hint.name.lower() != "broadcast":
        raise CannotTranslate(join.right.hint.name)


def _compute_columns(node: Any, scope: Scope) -> tuple[dict[str, Expression], bool]:
    """Return the columns behind a relation that computes, names or drops some, and whether these are all."""
    columns, is_whole = dict(scope.columns), True
    match node.WhichOneof("rel_type"):
        case "project":
            found = [_name_outputs(each, scope) for each in node.project.expressions]
            is_whole = None not in found
            listed = [pair for pairs in found for pair in pairs or ()]
            columns = dict(listed)
            if len(columns) < len(listed):
                raise CannotTranslate("two columns of one name")
        case "with_columns":
            for alias in node.with_columns.aliases:
                (name,) = alias.name
                name = scope.match_name(name) or name
                expression = _translate_or_none(translate_connect, alias.expr, scope)
                if expression is None:
                    columns.pop(name, None)
                    is_whole = False
                else:
                    columns[name] = expression
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
    return columns, is_whole


def _name_outputs(expression: Any, scope: Scope) -> list[tuple[str, Expression]] | None:
    """Return the columns that an entry of a selection makes, each with its name; None if only Spark can tell."""
    try:
        return _translate_outputs(expression, scope)
    except CannotTranslate:
        return None


def _translate_outputs(expression: Any, scope: Scope) -> list[tuple[str, Expression]]:
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
