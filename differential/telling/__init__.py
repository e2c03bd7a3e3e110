"""The shortest histories that tell a named behaviour from its absence, searched on the model."""
