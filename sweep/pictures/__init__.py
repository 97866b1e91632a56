"""Pictures of an answer, drawn with matplotlib."""
