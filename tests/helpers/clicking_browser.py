"""A browser for `BROWSER`: it goes where a login page leads; on that of `DevAuth` it clicks on `ada` before."""

import re
import sys
from urllib.parse import urlencode
from urllib.request import HTTPCookieProcessor, build_opener

browser = build_opener(HTTPCookieProcessor())
with browser.open(sys.argv[1]) as answer:
    page = answer.read().decode()
form = re.search(r'name="request" value="([^"]+)"', page)
if form is not None:
    browser.open(sys.argv[1], urlencode({"request": form[1], "user": "ada"}).encode()).close()
