"""Plans as pictures: what a picture shows, where each part is drawn, and the SVG of it.

>>> from penstock.server.picture import picture                       # doctest: +SKIP
>>> picture(model.plan("traffic")).svg                                # doctest: +SKIP
'<svg xmlns="http://www.w3.org/2000/svg" ...'
"""

from penstock.server.picture.draw import Picture, picture
from penstock.server.picture.values import count_of, size_of, values_of

__all__ = ["Picture", "count_of", "picture", "size_of", "values_of"]
