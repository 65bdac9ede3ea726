/**
 * How much of the window is free: a phone's keyboard covers a part of it, and some browsers do not
 * tell the page's layout so. body[data-short]: too little for a head of the page above the face.
 */
const SHORT_PX = 520;

export function followViewport() {
  const view = window.visualViewport;
  const fit = () => {
    const height = view && view.scale === 1 ? view.height : innerHeight;
    document.documentElement.style.setProperty("--height", `${height}px`);
    document.body.toggleAttribute("data-short", height <= SHORT_PX);
    if (view?.offsetTop) scrollTo(0, 0); // shoved up by the keyboard: what was covered is free now
  };
  (view ?? window).addEventListener("resize", fit);
  fit();
}
