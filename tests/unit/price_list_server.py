"""A server on loopback that answers GetProducts as AWS documents it: filters, pages, JSON texts."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

PUBLISHED = "2026-10-30T19:15:12Z"
PAGE = 3  # AWS's is 100: small, so that a short list has pages


def product(
    service: str,
    family: str,
    usage: str,
    *dimensions: tuple[str, str, str],
    region: str = "us-east-1",
    **attributes: str,
) -> dict[str, Any]:
    """One product: dimensions are beginRange, unit and dollars of the on-demand term."""
    sku = f"SKU{abs(hash((usage, region, family, tuple(attributes.items())))) % 10**12:012d}"
    known = {
        "servicecode": service,
        "usagetype": usage,
        "regionCode": region,
        "locationType": "AWS Region",
        "location": "a place",
        **attributes,
    }
    prices = {
        f"{sku}.JRTCKXETXF.{number}": {
            "unit": unit,
            "beginRange": begin,
            "endRange": "Inf",
            "description": f"${usd} per {unit}",
            "appliesTo": [],
            "rateCode": f"{sku}.JRTCKXETXF.{number}",
            "pricePerUnit": {"USD": usd},
        }
        for number, (begin, unit, usd) in enumerate(dimensions)
    }
    term = {"priceDimensions": prices, "sku": sku, "effectiveDate": "2026-10-01T00:00:00Z"}
    return {
        "product": {"productFamily": family, "attributes": known, "sku": sku},
        "serviceCode": service,
        "terms": {"OnDemand": {f"{sku}.JRTCKXETXF": term}},
        "version": "20261030191512",
        "publicationDate": PUBLISHED,
    }


def matches(one: dict[str, Any], filters: list[dict[str, str]]) -> bool:
    """Whether a product has every attribute that is asked for."""
    known = {**one["product"]["attributes"], "productFamily": one["product"]["productFamily"]}
    return all(known.get(each["Field"]) == each["Value"] for each in filters)


class Answers(BaseHTTPRequestHandler):
    """The one operation, over the server's list of products."""

    server: "PriceListServer"

    def do_POST(self) -> None:
        """Answer a page, or a refusal where the server is told to refuse."""
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.requests.append(body)
        assert self.headers["X-Amz-Target"] == "AWSPriceListService.GetProducts"
        if self.server.refusal:
            self._send(400, {"__type": self.server.refusal, "message": "no"})
            return
        found = [
            one
            for one in self.server.products
            if one["serviceCode"] == body["ServiceCode"] and matches(one, body["Filters"])
        ]
        begin = int(body.get("NextToken", "0"))
        answer: dict[str, Any] = {
            "FormatVersion": "aws_v1",
            "PriceList": [json.dumps(one) for one in found[begin : begin + PAGE]],
        }
        if begin + PAGE < len(found):
            answer["NextToken"] = str(begin + PAGE)
        self._send(200, answer)

    def _send(self, status: int, answer: dict[str, Any]) -> None:
        text = json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/x-amz-json-1.1")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


class PriceListServer(ThreadingHTTPServer):
    """The products it has, and the requests it saw."""

    def __init__(self, products: list[dict[str, Any]]) -> None:
        super().__init__(("127.0.0.1", 0), Answers)
        self.products = products
        self.requests: list[dict[str, Any]] = []
        self.refusal = ""

    @property
    def url(self) -> str:
        """Where it answers."""
        return f"http://127.0.0.1:{self.server_address[1]}"


@contextmanager
def serving(products: list[dict[str, Any]]) -> Iterator[PriceListServer]:
    """A server of these products, until the end of the block."""
    server = PriceListServer(products)
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
