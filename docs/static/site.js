"use strict";
// What scrolls inside the page can be reached with the keyboard, in browsers that do not see to it themselves.
addEventListener("load", () => {
    const mark = () => {
        for (const one of document.querySelectorAll("article pre, article .table-wrapper, article p:has(> img)"))
            one.scrollWidth > one.clientWidth ? one.setAttribute("tabindex", "0") : one.removeAttribute("tabindex");
    };
    addEventListener("resize", mark);
    mark();
});
