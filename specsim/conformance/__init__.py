"""What crosses a border: implementations and how they are loaded, what a call gave, case files."""
