"""Why a query has the matches it has, or none: its demands taken up one after another, with what each leaves."""
