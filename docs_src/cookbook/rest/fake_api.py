from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

ORDERS = {
    "A1": {"id": "A1", "status": "shipped", "total": 42.5, "internal": "x"},
    "A2": {"id": "A2", "status": "open", "total": 9.9, "internal": "y"},
}


async def get_order(request: Request) -> JSONResponse:
    if request.headers.get("authorization") != "Bearer test-key":
        return JSONResponse({"error": "invalid key"}, 401)
    order = ORDERS.get(request.path_params["id"])
    return JSONResponse(order or {"error": "not found"}, 200 if order else 404)


api = Starlette(routes=[Route("/orders/{id}", get_order)])
