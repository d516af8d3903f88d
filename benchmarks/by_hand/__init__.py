"""Models written in MLX by hand, as somebody who knows MLX would port them. The weights are those of the PyTorch models."""
