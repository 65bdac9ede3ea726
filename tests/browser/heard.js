/**
 * Put into the page before its own scripts: what it lets be heard, as one track. That is what the
 * video element plays, and what goes to the speaker from audio contexts of the page.
 */
{
  const native = AudioNode.prototype.connect;
  const sounding = [];
  AudioNode.prototype.connect = function (to, ...rest) {
    if (to instanceof AudioDestinationNode) sounding.push(this);
    return native.call(this, to, ...rest);
  };

  /** The newest of them; without one, the element's. */
  window.heardTrack = () => {
    const node = sounding.findLast(({ context }) => context.state !== "closed");
    if (!node) return document.querySelector("video").captureStream().getAudioTracks()[0];
    const out = new MediaStreamAudioDestinationNode(node.context, { channelCount: 1 });
    native.call(node, out);
    return out.stream.getAudioTracks()[0];
  };
}
