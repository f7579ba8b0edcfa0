"""Numbers behind the figures of papers, asked of one's own models, and the figures themselves."""
