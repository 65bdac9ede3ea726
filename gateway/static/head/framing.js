/**
 * Where the camera stands and what shines on a head: as the portrait of its bundle has it
 * (`head.json`), and for any other file by where its eyes are.
 */

/** Of a portrait whose camera is not known, in distances between the eyes. */
export const PORTRAIT_SIDE = 7;
/** Height of the picture and place of its middle, in distances between the eyes. */
const VIEWS = {
  portrait: { height: PORTRAIT_SIDE, middle: -0.5 },
  close: { height: 5, middle: -0.6 },
  wide: { height: 9.8, middle: -0.8 },
};
/** Of the width: what a narrow picture has to show. */
const NARROW = 0.56;
const FIELD_OF_VIEW = 15;
/** The middle of the head lies behind the eyes. */
const BEHIND = 1.1;
const RADIANS = Math.PI / 180;
/** Colour, strength, and from where: a key, a fill, one from below and two rims, as in a studio. */
const STUDIO = {
  ambient: 0.12,
  lamps: [
    { colour: [1, 0.965, 0.92], strength: 0.9, direction: [-0.45, 0.47, 0.76] },
    { colour: [0.92, 0.96, 1], strength: 0.31, direction: [0.71, 0.05, 0.71] },
    { colour: [1, 0.95, 0.9], strength: 0.19, direction: [0, -0.7, 0.72] },
    { colour: [1, 0.97, 0.93], strength: 0.33, direction: [0.59, 0.47, -0.65] },
    { colour: [0.93, 0.96, 1], strength: 0.29, direction: [-0.62, 0.36, -0.69] },
  ],
};
/** Of a lamp with which a white surface shines as white does, and of light from all around. */
const LAMP = 2.1;
const AROUND = 7.5;
/** With their own light heads look as in their portraits: fitted to skin and clothes of the four that ship. */
const EXPOSURE = { portrait: 1.2, studio: 0.85 };

export function isView(name) {
  return name in VIEWS;
}

/** Height of the portrait where the head is, in the head's own unit. */
export function portraitSide(eyes, scene) {
  if (!scene) return PORTRAIT_SIDE * eyes.apart;
  const { position, target, vertical_fov_deg } = scene.framing;
  return 2 * distance(position, target) * Math.tan((vertical_fov_deg / 2) * RADIANS);
}

/**
 * Where the camera stands, what it looks at and its angle, degrees.
 * @param {{middle: {x: number, y: number, z: number}, apart: number}} eyes
 * @param scene of the head's bundle; null: it has none
 * @param {"portrait" | "close" | "wide"} view
 * @param {{x: number, y: number, zoom: number}} look from the side and from above, radians
 * @param {number} aspect of the picture: a narrow one leaves out some of the shoulders and shows more
 *   above the head, and nothing below, where the bust ends
 */
export function framed(eyes, scene, view, look, aspect) {
  const { height, middle } = VIEWS[view];
  const { apart } = eyes;
  const angle = scene?.framing.vertical_fov_deg ?? FIELD_OF_VIEW;
  const shown = (portraitSide(eyes, scene) * height) / PORTRAIT_SIDE;
  const taller = 1 / Math.min(1, aspect / NARROW);
  const away = (shown * look.zoom * taller) / (2 * Math.tan((angle / 2) * RADIANS));
  let [x, y, z] = [eyes.middle.x, eyes.middle.y + middle * apart, eyes.middle.z - BEHIND * apart];
  let [round, up] = [look.x, look.y];
  if (scene) {
    const { position, target } = scene.framing;
    [x, y, z] = [target[0], target[1] + (middle - VIEWS.portrait.middle) * apart, target[2]];
    round += Math.atan2(position[0] - target[0], position[2] - target[2]);
    up += Math.asin((position[1] - target[1]) / distance(position, target));
  }
  y += (shown * (taller - 1)) / 2;
  const across = away * Math.cos(up);
  const position = [x + across * Math.sin(round), y + away * Math.sin(up), z + across * Math.cos(round)];
  return { position, target: [x, y, z], angle, away };
}

/** What shines on a head: lamps, and from all around. Light that is in its textures already is even. */
export function lit(scene) {
  const { lamps, ambient, baked } = scene?.light ?? STUDIO;
  if (baked) return { lamps: [], around: Math.PI, exposure: 1, baked: true };
  const shining = lamps.map(({ colour, strength, direction }) => ({ colour, direction, strength: LAMP * strength }));
  const exposure = scene?.light ? EXPOSURE.portrait : EXPOSURE.studio;
  return { lamps: shining, around: AROUND * ambient, exposure, baked: false };
}

function distance(a, b) {
  return Math.hypot(...a.map((value, axis) => value - b[axis]));
}
