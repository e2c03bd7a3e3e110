"""From a result stream to what people and CI systems read."""
