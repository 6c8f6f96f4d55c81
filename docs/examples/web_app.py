"""Inside a web app's nursery: requests submit work, and one customer's thousand requests do not hold up another's one.

The server here is a few lines on trio's own sockets, so that the example needs nothing else; in a real app it is whatever
serves requests in a nursery (Hypercorn with Quart-Trio or Starlette, say), and the runtime is opened around it.
"""

from functools import partial
from urllib.parse import parse_qs, urlsplit

import trio

from actors import Runtime, open_runtime


async def serve_request(runtime: Runtime, stream: trio.SocketStream) -> None:
    """`GET /thumbnail?user=ann&page=3` submits a task and answers with its result."""
    async with stream:
        request = (await stream.receive_some(4096)).decode("ascii", "replace")
        address = urlsplit(request.split(" ")[1])
        asked = {name: values[0] for name, values in parse_qs(address.query).items()}
        handle = await runtime.submit(address.path.strip("/"), asked.get("page"), user=asked.get("user", "anonymous"))
        body = str(await handle.result()).encode()
        await stream.send_all(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))


async def get(port: int, path: str) -> str:
    """A client, to have somebody ask."""
    async with await trio.open_tcp_stream("127.0.0.1", port) as stream:
        await stream.send_all(f"GET {path} HTTP/1.1\r\nHost: example\r\n\r\n".encode())
        answer = b"".join([data async for data in stream])
    return answer.partition(b"\r\n\r\n")[2].decode()


async def main() -> None:
    async with open_runtime(workers=4) as runtime, trio.open_nursery() as nursery:

        @runtime.handler("thumbnail", concurrency_max=2, timeout_seconds=5)
        async def thumbnail(page: str) -> str:
            return f"thumbnail of page {page}"

        listeners = await nursery.start(partial(trio.serve_tcp, partial(serve_request, runtime), 0, host="127.0.0.1"))
        port = listeners[0].socket.getsockname()[1]
        print(await get(port, "/thumbnail?user=ann&page=3"))
        print(await get(port, "/thumbnail?user=bob&page=4"))
        nursery.cancel_scope.cancel()


if __name__ == "__main__":
    trio.run(main)

# prints:
# thumbnail of page 3
# thumbnail of page 4
