"""Programs for who works on namedax: `stubs` (make stubs), `site_check` with `browser` (make docs-check), `release_check` (make release-check)."""
