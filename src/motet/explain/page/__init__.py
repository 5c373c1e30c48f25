"""Plans as pages: one self-contained file each, with graphs laid out here and made interactive in the browser."""
