"""The departments of the generated shop and their products."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

COLORS = "black|white|blue|red|green|yellow|purple|orange|pink|brown|navy|beige"
CLOTHES_SIZES = "x-small|small|medium|large|x-large|xx-large"


@dataclass(frozen=True, slots=True, kw_only=True)
class Department:
    """A part of the shop whose products share styles, attributes and options.

    Products are drawn from all of them, so that every kind must go with every style, attribute and
    value: a comforter may be king size, a curtain may not.
    """

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
        "console table|nightstand|bookcase|dresser|side table|sideboard",
        "Rustic|Modern|Nordic|Vintage|Shaker|Farmhouse|Classic|Coastal",
        "solid wood|easy assembly|heavy duty|adjustable feet|metal legs|storage drawer"
        "|stain resistant|scratch proof|hand finished|rounded edges|soft close|anti tip",
        (40, 480),
        color="walnut|white|black|grey|espresso|natural",
        size="small|medium|large|extra wide",
        material="oak|pine|maple|birch|cedar",
    ),
    _department(
        "Home › Kitchen",
        "coffee mug|soup bowl|tea cup|cereal bowl|latte mug|dessert bowl",
        "Ceramic|Matte|Glazed|Speckled|Stackable|Retro|Handmade|Ribbed",
        "dishwasher safe|chip resistant|scratch resistant|non toxic|easy clean|heat resistant"
        "|lead free|microwave safe|thick walled|oven safe|stain proof|gift ready",
        (8, 90),
        color=COLORS,
        size="8 ounce|9 ounce|10 ounce|12 ounce|16 ounce",
        style="single|pair|set of 4|set of 6",
    ),
    _department(
        "Home › Bedding",
        "duvet cover|bed blanket|fitted sheet|comforter|bed quilt|sheet set",
        "Cozy|Smooth|Textured|Plush|Luxury|Brushed|Simple|Hotel",
        "machine washable|super soft|quick drying|fade resistant|organic cotton|double stitched"
        "|pet friendly|hypo allergenic|wrinkle free|breathable fabric|extra durable|long wearing",
        (12, 140),
        color=COLORS,
        size="twin|full|queen|king|california king",
        pattern="plain|dots|leaves|waves|stars",
    ),
    _department(
        "Fashion › Clothing",
        "polo shirt|tunic blouse|henley shirt|flannel shirt|knit cardigan|rugby shirt",
        "Casual|Weekend|Preppy|Stylish|Classic|Versatile|Trendy|Timeless",
        "long sleeve|tagless neck|moisture wicking|shrink proof|curved hem|machine wash"
        "|reinforced seams|stretch fabric|button closure|tumble dry|chest pocket|odor control",
        (15, 120),
        color=COLORS,
        size=CLOTHES_SIZES,
        fit="slim|regular|tall|petite",
    ),
    _department(
        "Fashion › Shoes",
        "running shoe|ankle boot|walking shoe|canvas sneaker|tennis shoe|hiking shoe",
        "Nimble|Chunky|Bold|Sleek|Comfy|Flexible|Sturdy|Minimal",
        "rubber sole|arch support|non slip|memory foam|padded collar|shock absorbing|soft lining"
        "|vegan friendly|pull tab|day comfort|reinforced heel|removable insole",
        (18, 160),
        color=COLORS,
        size="6|7|8|9|10|11",
        width="narrow|normal|wide",
    ),
    _department(
        "Beauty › Care",
        "face cream|body lotion|hand cream|neck cream|body cream|face lotion",
        "Gentle|Rich|Fresh|Silky|Daily|Nourishing|Cooling|Botanical",
        "cruelty free|paraben free|aloe vera|sensitive skin|long lasting|natural ingredients"
        "|non greasy|dry skin|silicone free|hyaluronic acid|alcohol free|anti aging",
        (4, 60),
        scent="vanilla|lavender|citrus|rose|coconut|jasmine",
        size="1.7 fl oz|2 fl oz|4 fl oz|6 fl oz",
        pack="pack of 1|pack of 2|pack of 3",
    ),
    _department(
        "Electronics › Accessories",
        "phone charger|laptop charger|tablet charger|camera charger|watch charger|drone charger",
        "Compact|Foldable|Mini|Pro|Rugged|Turbo|Smart|Portable",
        "fast charging|tangle free|bend resistant|braided cord|surge protected|plug play"
        "|shock proof|power saving|carrying case|flame retardant|reinforced plug|dust proof",
        (9, 210),
        color="black|white|silver|blue|red|gold",
        length="3 feet|6 feet|10 feet",
        style="flat|round|coiled",
    ),
    _department(
        "Grocery › Snacks",
        "oat cluster|granola bar|oat cookie|cereal bar|granola bite|breakfast cookie",
        "Crunchy|Baked|Chewy|Toasted|Hearty|Homestyle|Wholesome|Golden",
        "gluten free|dairy free|low sugar|high protein|usda organic|nut free|whole grain|non gmo"
        "|individually wrapped|soy free|additive free|low sodium",
        (3, 45),
        flavor="original|berry|honey|lemon|apple|cinnamon",
        size="4 ounce|8 ounce|12 ounce|2 pound",
        pack="pack of 1|pack of 6|pack of 12",
    ),
)
