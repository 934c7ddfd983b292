"""The reward of purchases of real products, each worked out by hand.

A title's nouns are its words without function words and numbers. For each case the comment gives
the wanted title's nouns, those shared with what was bought, and what counts as a hit and why.
"""

from dataclasses import dataclass

import pytest

from agentfly.environments.webshop import Goal, judge
from agentfly.environments.webshop.catalog import Product
from agentfly.environments.webshop.text_match import plain_color, similarity


@dataclass(frozen=True, kw_only=True)
class Case:
    bought: str
    wanted: str
    attributes: tuple[str, ...]
    options: tuple[str, ...] = ()
    chosen: tuple[str, ...] = ()
    upper: float | None = None
    r_type: float
    hits: tuple[int, int, int]
    """Attributes, options, price."""
    reward: float


def same(asin: str, **rest: object) -> Case:
    """The very product of the goal: all its nouns are shared, so r_type is 1."""
    return Case(bought=asin, wanted=asin, r_type=1.0, **rest)  # type: ignore[arg-type]


CASES = {
    # --- the goal's own product -----------------------------------------------------------------
    # Everything right: (4 + 2 + 1) / (4 + 2 + 1).
    "all right": same(
        "B07F2G93BJ",
        attributes=("slim fit", "machine wash", "button closure", "long sleeve"),
        options=("blue", "small"),
        chosen=("blue", "small"),
        upper=30.0,
        hits=(4, 2, 1),
        reward=1.0,
    ),
    # One of two options not chosen: (3 + 1 + 1) / 6. It costs 376.46.
    "an option left out": same(
        "B0769HRGD2",
        attributes=("wood frame", "box spring", "solid wood"),
        options=("blue", "queen"),
        chosen=("queen",),
        upper=390.0,
        hits=(3, 1, 1),
        reward=5 / 6,
    ),
    # 565.71 is above 560: (4 + 1 + 0) / 6.
    "too dear": same(
        "B01A0L5FXA",
        attributes=("ready use", "fully assembled", "high density", "box spring"),
        options=("queen",),
        chosen=("queen",),
        upper=560.0,
        hits=(4, 1, 0),
        reward=5 / 6,
    ),
    # The limit itself is allowed: 134.0 <= 134.0. (2 + 0 + 1) / 3.
    "exactly the limit": same(
        "B09P65MG4G",
        attributes=("fully assembled", "contemporary style"),
        upper=134.0,
        hits=(2, 0, 1),
        reward=1.0,
    ),
    # Without a limit any price is right, even 1,199: (2 + 0 + 1) / 3.
    "no limit": same(
        "B07YN72RH4", attributes=("high resolution", "usb port"), hits=(2, 0, 1), reward=1.0
    ),
    # Nothing is priced in the record, which makes it 100.0, above 90: (2 + 0 + 0) / 3.
    "the default price": same(
        "B000YG3DWC",
        attributes=("protein serving", "quality ingredients"),
        upper=90.0,
        hits=(2, 0, 0),
        reward=2 / 3,
    ),
    # More options chosen than asked for cost nothing: (2 + 0 + 1) / 3.
    "a choice nobody asked for": same(
        "B018A8MPJ2",
        attributes=("queen size", "storage unit"),
        chosen=("chocolate",),
        hits=(2, 0, 1),
        reward=1.0,
    ),
    # --- options --------------------------------------------------------------------------------
    # "bark grey" and "light grey" are both plain grey: (2 + 1 + 1) / 4.
    "another shade of grey": same(
        "B018A8MPJ2",
        attributes=("queen size", "storage unit"),
        options=("light grey",),
        chosen=("bark grey",),
        hits=(2, 1, 1),
        reward=1.0,
    ),
    # green against grey: "gre" of 5 and 4 letters, 2 * 3 / 9 = 67%, no hit; large is one:
    # (4 + 1 + 1) / 7.
    "green is not grey": same(
        "B01HQTWL6S",
        attributes=("machine wash", "wash cold", "dry clean", "tumble dry"),
        options=("forest green", "large"),
        chosen=("heather grey", "large"),
        upper=60.0,
        hits=(4, 1, 1),
        reward=6 / 7,
    ),
    # charcoal stands before grey in the list, so "charcoal grey" is charcoal: no hit.
    # (1 + 0 + 1) / 3.
    "charcoal grey is charcoal": same(
        "B01HQTWL6S",
        attributes=("wash cold",),
        options=("charcoal grey",),
        chosen=("heather grey",),
        upper=60.0,
        hits=(1, 0, 1),
        reward=2 / 3,
    ),
    # black | white and white | black are both black, which comes first: (3 + 1 + 1) / 5.
    "two colors": same(
        "B08T84R7V2",
        attributes=("lace closure", "rubber outsole", "rubber sole"),
        options=("black | white",),
        chosen=("white | black",),
        upper=60.0,
        hits=(3, 1, 1),
        reward=1.0,
    ),
    # All words of "large" are in "x-large", which is 100%: a hit, though another size. (1+3+1)/5.
    "x-large for large": same(
        "B0969G2DH8",
        attributes=("classic fit",),
        options=("men", "navy", "large"),
        chosen=("men", "navy", "x-large"),
        upper=20.0,
        hits=(1, 3, 1),
        reward=1.0,
    ),
    # "unisex" of "unisex small": 2 * 6 / (6 + 12) = 67%, no hit. (2 + 0 + 1) / 4.
    "unisex small for unisex medium": same(
        "B07LBNRY7H",
        attributes=("officially licensed", "classic fit"),
        options=("unisex medium",),
        chosen=("unisex small",),
        upper=50.0,
        hits=(2, 0, 1),
        reward=0.75,
    ),
    # Shared "1 fl of oz pack" (15) against it with "5 8" (19): 30 / 34 = 88%: a hit. (3 + 2 + 1)/6.
    "another bottle": same(
        "B087Y28XLM",
        attributes=("animal testing", "paraben free", "dry skin"),
        options=("fresh", "10.6 fl oz (pack of 1)"),
        chosen=("fresh", "8.5 fl oz (pack of 1)"),
        upper=10.0,
        hits=(3, 2, 1),
        reward=1.0,
    ),
    # One choice can be a hit for two wishes: both are blue. (1 + 2 + 1) / 4.
    "one choice for two": same(
        "B07JVVDJ6L",
        attributes=("classic fit",),
        options=("royal blue", "baby blue"),
        chosen=("heather blue",),
        upper=30.0,
        hits=(1, 2, 1),
        reward=1.0,
    ),
    # --- attributes -----------------------------------------------------------------------------
    # "wooden sofa" is no attribute, but in the title: (1 + 0 + 1) / 2.
    "attribute in the title": same(
        "B09P65MG4G", attributes=("wooden sofa",), upper=200.0, hits=(1, 0, 1), reward=1.0
    ),
    # "locking casters" is in a bullet point: (1 + 0 + 1) / 2.
    "attribute in the features": same(
        "B07FDJYBVW", attributes=("locking casters",), upper=400.0, hits=(1, 0, 1), reward=1.0
    ),
    # "kangaroo pocket" is in the description: (1 + 0 + 1) / 2.
    "attribute in the description": same(
        "B07V3WXX85", attributes=("kangaroo pocket",), upper=60.0, hits=(1, 0, 1), reward=1.0
    ),
    # "machine washable" against "machine wash": 2 * 12 / 28 = 86%, a hit. "hand sewn" is nowhere.
    # (1 + 0 + 1) / 3.
    "attribute alike": same(
        "B00JGBJD3E",
        attributes=("machine washable", "hand sewn"),
        upper=50.0,
        hits=(1, 0, 1),
        reward=2 / 3,
    ),
    # "cushioned insole" is like neither of its attributes, faux fur and rubber sole, and what the
    # features say is "comfort-cushion insole". 24.99 > 20: (1 + 0 + 0) / 3.
    "attribute not quite": same(
        "B01N9I1E62",
        attributes=("faux fur", "cushioned insole"),
        upper=20.0,
        hits=(1, 0, 0),
        reward=1 / 3,
    ),
    # "stainless steel" is nowhere, 353.26 is too dear, king was not asked for: (0 + 0 + 0) / 2.
    "the right thing for nothing": same(
        "B0048U51N4", attributes=("stainless steel",), upper=340.0, hits=(0, 0, 0), reward=0.0
    ),
    # --- other products: r_type -----------------------------------------------------------------
    # spring coil mattress queen; shared: queen, 1/4 > 0.2, so 1. None of the four is said of the
    # bed, no size is chosen, and 2,418.74 > 600: (0 + 0 + 0) / 6.
    "kind by title, nothing else": Case(
        bought="B018A8MPJ2",
        wanted="B01A0L5FXA",
        attributes=("ready use", "fully assembled", "high density", "box spring"),
        options=("queen",),
        upper=600.0,
        r_type=1.0,
        hits=(0, 0, 0),
        reward=0.0,
    ),
    # asics mens gel cumulus; shared: mens, 1/4 > 0.2, so a lotion is taken for shoes: 1.
    # No rubber in it, 5.99: (0 + 0 + 1) / 3.
    "a lotion for shoes": Case(
        bought="B087Y28XLM",
        wanted="B0821674CT",
        attributes=("rubber outsole", "rubber sole"),
        upper=120.0,
        r_type=1.0,
        hits=(0, 0, 1),
        reward=1 / 3,
    ),
    # rachel zoe women sofia slipper; shared: women slipper, 2/5: 1. faux fur only, of three:
    # "anti slip" and "non slip" are nowhere in it. (1 + 0 + 1) / 4.
    "the other slipper": Case(
        bought="B01N9I1E62",
        wanted="B099FKK27G",
        attributes=("anti slip", "non slip", "faux fur"),
        upper=50.0,
        r_type=1.0,
        hits=(1, 0, 1),
        reward=0.5,
    ),
    # ethika mens mid boxer briefs cayenne red; shared: mens, 1/7 = 0.14: not by title, and not by
    # query, but two shared categories (Clothing, Shoes & Jewelry; Men): 1. Neither attribute, and
    # 100 > 30: 0.
    "kind by category, too dear": Case(
        bought="B0821674CT",
        wanted="B07YYNY2ZZ",
        attributes=("stretch fabric", "cotton spandex"),
        upper=30.0,
        r_type=1.0,
        hits=(0, 0, 0),
        reward=0.0,
    ),
    # bestar pur collection queen murphy bed kit; shared: queen, 1/7; query differs; Bedroom
    # Furniture, Furniture, Home & Kitchen: 1. No limit: (0 + 0 + 1) / 4.
    "kind by category": Case(
        bought="B01A0L5FXA",
        wanted="B018A8MPJ2",
        attributes=("queen size", "storage unit"),
        options=("chocolate",),
        chosen=("queen",),
        r_type=1.0,
        hits=(0, 0, 1),
        reward=0.25,
    ),
    # seacrest white kitchen cart linon; shared: white, 1/5 = 0.2, not above it; but Furniture and
    # Home & Kitchen: 1. assembly required only. 490.99 > 340: (1 + 0 + 0) / 4.
    "exactly a fifth, by category": Case(
        bought="B00V0OCMXS",
        wanted="B07FDJYBVW",
        attributes=("assembly required", "white finish", "wood frame"),
        upper=340.0,
        r_type=1.0,
        hits=(1, 0, 0),
        reward=0.25,
    ),
    # establishment men organic cotton fleece short pocket xxl (s is a function word); shared: men,
    # 1/8; no category (one has none); the same query, men's shorts: 1. machine wash and drawstring
    # closure, not tumble dry; sizes and colors can't be chosen; 43 <= 50: (2 + 0 + 1) / 6.
    "kind by query": Case(
        bought="B00JGBJD3E",
        wanted="B07FD13LP1",
        attributes=("machine wash", "drawstring closure", "tumble dry"),
        options=("grey", "small"),
        upper=50.0,
        r_type=1.0,
        hits=(2, 0, 1),
        reward=0.5,
    ),
    # palmer mens body face lotion ounce; shared: mens, 1/6 = 0.17; neither query nor category: 0.5.
    # Nothing of a lotion in a shoe; 100 > 10: 0.5 * 0.
    "half a kind, worth nothing": Case(
        bought="B0821674CT",
        wanted="B087Y28XLM",
        attributes=("animal testing", "dry skin"),
        upper=10.0,
        r_type=0.5,
        hits=(0, 0, 0),
        reward=0.0,
    ),
    # rustic luxe large wooden sofa table gray; shared: large, 1/7: 0.5. "cotton" is all of the
    # shorts; 43 <= 140: 0.5 * (1 + 0 + 1) / 3.
    "half a kind": Case(
        bought="B00JGBJD3E",
        wanted="B09P65MG4G",
        attributes=("100% cotton", "contemporary style"),
        upper=140.0,
        r_type=0.5,
        hits=(1, 0, 1),
        reward=1 / 3,
    ),
    # rill foods tekoa split pea soup mix oz; shared: mix, 1/8; Grocery & Gourmet Food is but one
    # category: 0.5. "Kosher - Dairy"; 7.99 <= 10: 0.5 * (1 + 0 + 1) / 2.
    "one category is not enough": Case(
        bought="B00GMQ4WRI",
        wanted="B07L5T94C5",
        attributes=("kosher",),
        upper=10.0,
        r_type=0.5,
        hits=(1, 0, 1),
        reward=0.5,
    ),
    # upon is a function word: time queen born shirts tank top; shared: queen, 1/6: 0.5. Nothing
    # fits but the absent limit: 0.5 * (0 + 0 + 1) / 2.
    "half a kind without a limit": Case(
        bought="B01A0L5FXA",
        wanted="B09RVF4JP1",
        attributes=("needle sleeve",),
        r_type=0.5,
        hits=(0, 0, 1),
        reward=0.25,
    ),
    # rachel zoe women sofia slipper; shared: women, 1/5 = 0.2 is not above 0.2; no query, and no
    # category (the shirt has none): 0.5. "short sleeve" and "button closure" fit, within 60; one of
    # the two sizes asked for: 0.5 * (2 + 1 + 1) / 5.
    "exactly a fifth": Case(
        bought="B07MGB73NJ",
        wanted="B099FKK27G",
        attributes=("short sleeve", "button closure"),
        options=("medium", "small"),
        chosen=("medium",),
        upper=60.0,
        r_type=0.5,
        hits=(2, 1, 1),
        reward=0.4,
    ),
    # viracy women short sleeve v neck casual flowy tunic shirt m 3xl: "3xl" begins with a digit, so
    # eleven nouns, shared: women, 1/11 < 0.1: 0.1. medium for medium; 33.39 at most:
    # 0.1 * (0 + 1 + 1) / 3.
    "a tenth of a kind": Case(
        bought="B099FKK27G",
        wanted="B07MGB73NJ",
        attributes=("button closure",),
        options=("medium",),
        chosen=("medium",),
        upper=40.0,
        r_type=0.1,
        hits=(0, 1, 1),
        reward=0.1 * 2 / 3,
    ),
    # amazon essentials men slim fit long sleeve solid pocket oxford shirt: eleven; shared: shirt,
    # 1/11: 0.1, although two categories are shared. machine wash; 17.99: 0.1 * (1 + 0 + 1) / 3.
    "a tenth in spite of categories": Case(
        bought="B0969G2DH8",
        wanted="B07F2G93BJ",
        attributes=("machine wash", "button closure"),
        upper=20.0,
        r_type=0.1,
        hits=(1, 0, 1),
        reward=0.1 * 2 / 3,
    ),
    # csu cleveland state university vikings property fleece drawstring shorts heather charcoal:
    # eleven; shared: shorts, 1/11: 0.1, although the query is the same. machine wash and drawstring
    # closure of four; 43 > 40: 0.1 * (2 + 0 + 0) / 5.
    "a tenth in spite of the query": Case(
        bought="B00JGBJD3E",
        wanted="B09HX5CD2D",
        attributes=(
            "officially licensed",
            "machine wash",
            "drawstring closure",
            "elastic waistband",
        ),
        upper=40.0,
        r_type=0.1,
        hits=(2, 0, 0),
        reward=0.04,
    ),
    # stouffer party size lasagna meat sauce frozen meal; nothing shared: 0, though the same query.
    "nothing in spite of the query": Case(
        bought="B084GWS59P",
        wanted="B000YG3DWC",
        attributes=("plant based",),
        r_type=0.0,
        hits=(1, 0, 1),
        reward=0.0,
    ),
    # seacrest white kitchen cart linon against spring coil mattress queen: nothing shared: 0,
    # though Furniture and Home & Kitchen are.
    "nothing in spite of categories": Case(
        bought="B01A0L5FXA",
        wanted="B07FDJYBVW",
        attributes=("fully assembled",),
        upper=600.0,
        r_type=0.0,
        hits=(1, 0, 1),
        reward=0.0,
    ),
    # kkg kappa kappa gamma pink letter sorority crewneck sweatshirt against a hoodie: nothing: 0.
    "nothing in spite of both": Case(
        bought="B07Q48JVT8",
        wanted="B08HW24C55",
        attributes=("officially licensed",),
        upper=50.0,
        r_type=0.0,
        hits=(1, 0, 1),
        reward=0.0,
    ),
    # skechers women relaxed fit arch fit commute clog taupe m: ten, fit counted twice; shared:
    # clog (women is not womens), 1/10, which is not below 0.1; the same query: 1. Neither
    # attribute; 69.97: (0 + 0 + 1) / 3.
    "exactly a tenth": Case(
        bought="B07MNW91JH",
        wanted="B09S6VN97V",
        attributes=("arch support", "rubber sole"),
        upper=90.0,
        r_type=1.0,
        hits=(0, 0, 1),
        reward=1 / 3,
    ),
    # hillsdale furniture martino bed set rails king smoke silver; shared: hillsdale furniture bed,
    # 3/9: 1. box spring and assembly required; 226.2: (2 + 0 + 1) / 4, "smoke silver" nowhere.
    "another bed": Case(
        bought="B004A9L7ZO",
        wanted="B0048U51N4",
        attributes=("assembly required", "box spring", "smoke silver"),
        upper=360.0,
        r_type=1.0,
        hits=(2, 0, 1),
        reward=0.75,
    ),
    # native forest mushroom pieces stems oz against crunchmaster gourmet toasted sesame rice
    # cracker ounce pack: nothing shared: 0.
    "crackers for mushrooms": Case(
        bought="B002C56QX6",
        wanted="B00CQ7PQYU",
        attributes=("gluten free",),
        r_type=0.0,
        hits=(1, 0, 1),
        reward=0.0,
    ),
    # furniture hotspot bakers rack white stain w x d x h: eleven, x counted twice; shared: white,
    # 1/11: 0.1, although Furniture and Home & Kitchen are shared. assembly required, and no
    # engineered wood; 458.84 > 400: 0.1 * (1 + 0 + 0) / 3.
    "a table for a rack": Case(
        bought="B07S8F7SHK",
        wanted="B079V5YD92",
        attributes=("assembly required", "engineered wood"),
        upper=400.0,
        r_type=0.1,
        hits=(1, 0, 0),
        reward=0.1 / 3,
    ),
    # organic raw sprouted hi protein whole food bars vanilla pack: ten; shared: organic pack, 2/10;
    # Grocery & Gourmet Food alone; the same query: 1. gluten free of three; 7.49: (1 + 0 + 1) / 5.
    "cereal for bars": Case(
        bought="B07XRDD75B",
        wanted="B08LQZ5BRC",
        attributes=("plant based", "dairy free", "gluten free"),
        options=("vanilla (12-pack)",),
        upper=60.0,
        r_type=1.0,
        hits=(1, 0, 1),
        reward=0.4,
    ),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_the_reward_is_what_was_worked_out_by_hand(
    case: Case, official_products: dict[str, Product]
) -> None:
    goal = Goal(
        id="by hand",
        asin=case.wanted,
        instruction="",
        attributes=case.attributes,
        options=case.options,
        price_upper=case.upper,
    )
    verdict = judge(
        official_products[case.bought], case.chosen, goal, official_products[case.wanted]
    )
    assert verdict.r_type == case.r_type
    assert (verdict.attribute_hits, verdict.option_hits, verdict.within_price) == case.hits
    assert verdict.reward == pytest.approx(case.reward, abs=1e-12)


def test_the_cases_are_of_at_least_thirty_products_and_all_kinds() -> None:
    assert len({asin for case in CASES.values() for asin in (case.bought, case.wanted)}) >= 30
    assert {case.r_type for case in CASES.values()} == {0.0, 0.1, 0.5, 1.0}


@pytest.mark.parametrize(
    ("one", "other", "percent"),
    [
        ("essential oil", "essential oils", 96),  # 2 * 13 / 27
        ("tea tree", "tree tea", 100),
        ("large", "x-large", 100),
        ("rubber sole", "rubber outsole", 88),  # 2 * 11 / 25
        ("red", "", 0),
        ("☃", "☃", 0),
    ],
)
def test_similarity_by_hand(one: str, other: str, percent: int) -> None:
    assert similarity(one, other) == percent


def test_colors_are_found_anywhere_in_a_value_in_the_order_of_the_list() -> None:
    # "scarlet" has none of the names; "wash" holds "ash", "tailored" holds "red".
    assert plain_color("scarlet") == "scarlet"
    assert plain_color("stone wash") == "ash"
    assert plain_color("tailored") == "red"
    assert plain_color("navy blue") == "blue"
