"""The Linear Road benchmark: its queries on a file or on generated traffic, checked, timed and rated."""
