"""The departments of the generated shop and their products."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

COLORS = "black|white|blue|red|green|yellow|purple|orange|pink|brown|navy|beige"
CLOTHES_SIZES = "x-small|small|medium|large|x-large|xx-large"


@dataclass(frozen=True, slots=True, kw_only=True)
class Department:
    """A part of the shop whose products share styles, attributes and options."""

    path: str
    """Path of the department: `Home › Furniture`."""
    kinds: tuple[str, ...]
    """Kinds of products in the singular; the plural adds an s."""
    styles: tuple[str, ...]
    attributes: tuple[str, ...]
    options: Mapping[str, tuple[str, ...]]
    prices: tuple[float, float]


def _department(
    path: str, kinds: str, styles: str, attributes: str, prices: tuple[float, float], **options: str
) -> Department:
    return Department(
        path=path,
        kinds=tuple(kinds.split("|")),
        styles=tuple(styles.split("|")),
        attributes=tuple(attributes.split("|")),
        options=MappingProxyType({name: tuple(v.split("|")) for name, v in options.items()}),
        prices=prices,
    )


DEPARTMENTS = (
    _department(
        "Home › Furniture",
        "console table|bed frame|bookcase|dining chair|nightstand|bar stool",
        "Rustic|Modern|Nordic|Vintage|Slim|Industrial|Classic|Curved",
        "solid wood|easy assembly|heavy duty|space saving|metal legs|storage drawer|stain resistant"
        "|scratch proof|hand painted|folding design|soft close|wall mounted",
        (40, 480),
        color="walnut|white|black|grey|espresso|natural",
        size="small|medium|large|extra wide",
        material="oak|pine|bamboo|steel|wicker",
    ),
    _department(
        "Home › Kitchen",
        "coffee mug|frying pan|cutting board|water bottle|lunch bag|tea kettle",
        "Ceramic|Copper|Glazed|Speckled|Stackable|Retro|Tall|Hammered",
        "dishwasher safe|non stick|leak proof|bpa free|easy clean|heat resistant|lead free"
        "|microwave safe|double walled|stay cool|rust proof|gift ready",
        (8, 90),
        color=COLORS,
        size="8 ounce|12 ounce|16 ounce|24 ounce|32 ounce",
        style="single|pair|set of 4|set of 6",
    ),
    _department(
        "Home › Bedding",
        "throw blanket|pillow case|bath towel|window curtain|floor rug|duvet cover",
        "Quilted|Striped|Woven|Plush|Floral|Knitted|Plain|Checked",
        "machine washable|super soft|quick drying|fade resistant|organic cotton|light blocking"
        "|pet friendly|hypo allergenic|wrinkle free|double sided|anti slip|extra thick",
        (12, 140),
        color=COLORS,
        size="twin|full|queen|king|california king",
        pattern="plain|dots|leaves|waves|stars",
    ),
    _department(
        "Fashion › Clothing",
        "rain jacket|wool sweater|summer dress|polo shirt|yoga legging|pajama set",
        "Casual|Loose|Fitted|Cropped|Classic|Sporty|Elegant|Layered",
        "long sleeve|relaxed fit|moisture wicking|water resistant|elastic waist|hand wash"
        "|fleece lined|stretch fabric|button closure|tumble dry|deep pockets|odor control",
        (15, 120),
        color=COLORS,
        size=CLOTHES_SIZES,
        fit="slim|regular|tall|petite",
    ),
    _department(
        "Fashion › Shoes",
        "running shoe|ankle boot|beach sandal|house slipper|leather loafer|canvas sneaker",
        "Light|Chunky|Trail|Urban|Soft|Pointed|Round|Laced",
        "rubber sole|arch support|non slip|memory foam|slip on|steel toe|open toe|vegan leather"
        "|ankle strap|day comfort|reflective heel|removable insole",
        (18, 160),
        color=COLORS,
        size="6|7|8|9|10|11",
        width="narrow|normal|wide",
    ),
    _department(
        "Beauty › Care",
        "face cream|hair mask|body lotion|lip balm|bath bomb|hand soap",
        "Gentle|Rich|Fresh|Silky|Daily|Overnight|Cooling|Botanical",
        "cruelty free|paraben free|tea tree|sensitive skin|long lasting|natural ingredients"
        "|oil free|dry skin|sulfate free|hyaluronic acid|fragrance free|anti aging",
        (4, 60),
        scent="vanilla|lavender|citrus|rose|coconut|eucalyptus",
        size="2 fl oz|4 fl oz|8 fl oz|12 fl oz",
        pack="pack of 1|pack of 2|pack of 3",
    ),
    _department(
        "Electronics › Accessories",
        "phone charger|desk lamp|wireless speaker|laptop sleeve|camera tripod|keyboard cover",
        "Compact|Foldable|Mini|Pro|Rugged|Ultra|Smart|Angled",
        "fast charging|noise canceling|water proof|high definition|hands free|plug play|shock proof"
        "|power saving|carrying case|long range|touch control|dust proof",
        (9, 210),
        color="black|white|silver|blue|red|gold",
        length="3 feet|6 feet|10 feet",
        style="regular|travel|studio",
    ),
    _department(
        "Grocery › Snacks",
        "nut cluster|granola bar|green tea bag|chocolate truffle|protein cookie|dried mango slice",
        "Crunchy|Roasted|Chewy|Toasted|Wild|Sweet|Salted|Spiced",
        "gluten free|dairy free|low sugar|high protein|usda organic|nut free|keto friendly|non gmo"
        "|individually wrapped|soy free|artificial free|low sodium",
        (3, 45),
        flavor="original|berry|honey|lemon|mint|chili",
        size="4 ounce|8 ounce|12 ounce|2 pound",
        pack="pack of 1|pack of 6|pack of 12",
    ),
)
