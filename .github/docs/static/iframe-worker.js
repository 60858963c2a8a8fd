// A page that is read from a disk may start no worker, and the search is one: here it runs in a frame of the page, which has its methods.
if (location.protocol === "file:")
  window.Worker = class extends EventTarget {
    constructor(url) {
      super()
      this.frame = document.createElement("iframe")
      this.frame.hidden = true
      this.ready = new Promise(resolve => this.frame.addEventListener("load", resolve, { once: true }))
      document.body.append(this.frame)
      const inner = this.frame.contentWindow
      inner.document.open()
      inner.postMessage = data => this.dispatchEvent(new MessageEvent("message", { data }))
      inner.importScripts = () => undefined // languages other than English
      inner.document.write(`<!DOCTYPE html><script src="${url}"></script>`)
      inner.document.close()
    }
    postMessage(data) {
      this.ready.then(() => this.frame.contentWindow.dispatchEvent(new MessageEvent("message", { data })))
    }
    terminate() {
      this.frame.remove()
    }
  }
