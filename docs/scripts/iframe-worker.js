// Lets the site's search run where a page is read from a file: browsers allow no web workers there. A worker becomes a
// hidden frame; messages to and from it are events. The name is the one that the theme looks for.
window.IFrameWorker = class extends EventTarget {
  constructor(url) {
    super();
    this.waiting = [];
    const frame = document.createElement("iframe");
    frame.hidden = true;
    document.body.appendChild(frame);
    const inner = frame.contentWindow;
    this.inner = inner;
    inner.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", { data }));
    inner.importScripts = async (...urls) => {
      for (const each of urls) await this.load(each);
    };
    this.load(url).then(() => {
      const waiting = this.waiting;
      this.waiting = null;
      waiting.forEach((data) => this.postMessage(data));
    });
  }

  load(url) {
    return new Promise((done, failed) => {
      const script = this.inner.document.createElement("script");
      Object.assign(script, { src: url, onload: done, onerror: failed });
      this.inner.document.body.appendChild(script);
    });
  }

  postMessage(data) {
    if (this.waiting) this.waiting.push(data);
    else this.inner.dispatchEvent(new this.inner.MessageEvent("message", { data }));
  }

  terminate() {
    this.inner.frameElement.remove();
  }
};
if (location.protocol === "file:") window.Worker = window.IFrameWorker;
