"""Why a query has the matches it has, or none: its requirements checked one after another, with what each leaves."""
