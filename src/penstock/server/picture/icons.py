"""Icons of the parts of a plan: lines in a square of 16 by 16, in the colour of their box."""

ICONS = {
    # a queue is a ladder, as in STREAM's visualizer: elements go from rung to rung
    "queue": "M5 1.5V14.5M11 1.5V14.5M5 4H11M5 8H11M5 12H11",
    # a window is a pane
    "window": "M2.5 2.5H13.5V13.5H2.5ZM8 2.5V13.5M2.5 8H13.5",
    # a store is a drum; its stubs are the dotted flows
    "store": "M2.5 4C2.5 1.7 13.5 1.7 13.5 4V12C13.5 14.3 2.5 14.3 2.5 12ZM2.5 4C2.5 6.3 13.5 6.3 13.5 4"
    "M2.5 8C2.5 10.3 13.5 10.3 13.5 8",
    "stream": "M1.5 4.5C4 2 5.5 7 8 4.5S12 7 14.5 4.5M1.5 9.5C4 7 5.5 12 8 9.5S12 12 14.5 9.5",
    "table": "M2 3H14V13H2ZM2 6.5H14M2 9.8H14M6.5 3V13",
    "filter": "M2 3H14L9.5 8.5V13.5L6.5 12V8.5Z",
    "join": "M6 3.5A4.5 4.5 0 1 0 6 12.5A4.5 4.5 0 1 0 6 3.5"
    "M10 3.5A4.5 4.5 0 1 0 10 12.5A4.5 4.5 0 1 0 10 3.5",
    "sum": "M12.5 4.5V2.5H3.5L8.5 8L3.5 13.5H12.5V11.5",
    "set": "M8 2.5V13.5M2.5 8H13.5",
    "columns": "M2.5 2.5H6.5V13.5H2.5ZM9.5 2.5H13.5V13.5H9.5Z",
    "clock": "M8 1.8A6.2 6.2 0 1 0 8 14.2A6.2 6.2 0 1 0 8 1.8M8 4.5V8L10.5 9.5",
    "out": "M2 8H13M9 4L13 8L9 12",
    "exchange": "M2 5H13M10 2L13 5L10 8M14 11H3M6 8L3 11L6 14",
    "result": "M3 2V14M3 3H12.5L10.5 6L12.5 9H3",
    "operator": "M8 2L14 8L8 14L2 8Z",
}
