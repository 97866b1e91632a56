"""A dataset becomes an answer: what is compared, how sure it is, and the tables that say so."""
