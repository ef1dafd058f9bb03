
opwright.programÿÿÿÿÿÿÿÿÿ…}Â²~k