"""The page to send: one HTML file with words, tables, pictures and commands."""
