"""What can be read off the shape of a pattern: what may bind nothing, what repeats, where a NOT has an open side."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from motet.model.pattern import And, Event, Neg, Not, Or, Pattern, Repeat, Seq, children, events


def is_nullable(pattern: Pattern) -> bool:
    """Return whether a pattern can be passed without binding an event."""
    match pattern:
        case Event():
            return False
        case Not() | Neg():
            return True
        case Seq(parts) | And(parts):
            return all(is_nullable(part) for part in parts)
        case Or(parts):
            return any(is_nullable(part) for part in parts)
        case Repeat(part, low):
            return low == 0 or is_nullable(part)


def repeated_names(pattern: Pattern) -> frozenset[str]:
    """Return the names of events that one match may bind more than once."""
    match pattern:
        case Repeat(part, _, high) if high is None or high > 1:
            return frozenset(event.name for event in events(part))
    return frozenset().union(*(repeated_names(part) for part in children(pattern)))


def find_shared_variables(pattern: Pattern) -> list[str]:
    """Find the variables of which one match may bind two events; parts of an OR may share theirs."""
    match pattern:
        case Event() | Not() | Neg():
            return []
        case Repeat(part):
            return find_shared_variables(part)
        case Or(parts):
            within = [name for part in parts for name in find_shared_variables(part)]
            return list(dict.fromkeys(within))
        case Seq(parts) | And(parts):
            within = [name for part in parts for name in find_shared_variables(part)]
            counts = Counter(name for part in parts for name in _list_variables(part))
            return list(dict.fromkeys([*within, *(name for name, count in counts.items() if count > 1)]))


def _list_variables(pattern: Pattern) -> set[str]:
    own = {pattern.variable} if isinstance(pattern, Event) and pattern.variable is not None else set()
    return own.union(*(_list_variables(part) for part in children(pattern)))


def find_open_absences(pattern: Pattern, before: bool = False, after: bool = False) -> Iterator[Not]:
    """Yield each NOT that some match leaves without a bound event before it or after it.

    `before` and `after` say whether an event is always bound on that side of the pattern.
    """
    match pattern:
        case Not():
            if not (before and after):
                yield pattern
        case Seq(parts):
            for place, part in enumerate(parts):
                bound_before = before or not all(is_nullable(other) for other in parts[:place])
                bound_after = after or not all(is_nullable(other) for other in parts[place + 1 :])
                yield from find_open_absences(part, bound_before, bound_after)
        case And(parts):
            # The parts of an AND come in any order: what lies around it bounds none of them.
            for part in parts:
                yield from find_open_absences(part)
        case Or() | Repeat():
            for part in children(pattern):
                yield from find_open_absences(part, before, after)
