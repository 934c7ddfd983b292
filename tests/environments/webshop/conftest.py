from pathlib import Path

import pytest

from agentfly.environments.webshop.catalog import Catalog, Product, load_catalog

OFFICIAL = Path(__file__).parents[4] / "shared" / "data" / "webshop"


@pytest.fixture(scope="session")
def official_folder() -> Path:
    if not OFFICIAL.is_dir():
        pytest.skip("the official 1,000 products are not here")
    return OFFICIAL


@pytest.fixture(scope="session")
def official(official_folder: Path) -> Catalog:
    return load_catalog(official_folder)


@pytest.fixture(scope="session")
def official_products(official: Catalog) -> dict[str, Product]:
    return {product.asin: product for product in official.products}
