"""Operations of a made-up library, for which there is no lowering."""

import torch


def _define(name: str) -> None:
    op = torch.library.custom_op(f"acme::{name}", torch.abs, mutates_args=(), schema="(Tensor x) -> Tensor")
    op.register_fake(torch.empty_like)


for name in ("window", "other", "unused"):
    _define(name)

# One that PyTorch can say by another, which has no lowering either.
library = torch.library.Library("acme", "FRAGMENT")
library.define("both(Tensor x) -> Tensor")
library.impl("both", lambda x: torch.ops.acme.window(x) + 1, "CompositeImplicitAutograd")
