"""Real trained models (see requirements.txt) as the tests use them: loading, inputs, export."""
